import CLinux
@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// The stores that this user's programs have unlocked: a file of public values outside every store, like ssh's `known_hosts`. With
/// it, a program that has just started knows an older or forged store.
///
/// A line is the store's ID, the owner's public key or a dash, generation, epoch, and the store's folder if it is in one. A store is
/// found by its ID, which a copy has too, and another store by the folder that it was put in. The file is believed if only this user
/// can write it, and counts as empty otherwise: an attacker who can write the user's files could remove it.
final class StoreMemory: Sendable {
    struct Numbers: Equatable {
        let generation: UInt64
        let epoch: UInt32

        /// An attacker with the device key can write the highest numbers there are. No store is changed that often, and nothing
        /// could follow them, so they are not remembered.
        var isPlausible: Bool { generation < 1 << 48 && epoch < 1 << 31 }

        /// A restored store that followed higher ones would soon have numbers that are not remembered.
        var isReachable: Bool { generation < 1 << 47 && epoch < 1 << 30 }
    }

    struct Entry: Equatable {
        let store: StoreID
        /// A store without slots has none: everybody with the device key has its keys.
        let owner: [UInt8]?
        let numbers: Numbers
        let folder: String?
    }

    /// The stores that were changed longest ago are forgotten.
    static let maximumEntries = 256
    private static let maximumLength = 1 << 20

    let path: String
    /// A store in a cluster has none.
    let folder: String?
    private let known = Protected<(state: FileState, entries: [Entry])?>(nil)

    init(_ path: String, of folder: String?) {
        self.path = path
        // A line ends with it.
        self.folder = folder.flatMap { $0.utf8.contains(UInt8(ascii: "\n")) ? nil : Self.resolved($0) }
    }

    /// The folder by one name, whatever links and spelling lead to it, also if it is gone.
    private static func resolved(_ folder: String) -> String {
        if let found = realpath(folder, nil) {
            defer { free(found) }
            return String(cString: found)
        }
        let parent = Path.parent(of: folder)
        if parent.isEmpty || parent == folder { return folder }
        let name = folder.dropFirst(parent.utf8.count).drop { $0 == "/" }
        return name == "." || name.isEmpty ? resolved(parent) : "\(resolved(parent))/\(name)"
    }

    /// Returns nil if the program has neither `HOME` nor `XDG_STATE_HOME`, or more rights than the user who has started it.
    static func ofUser(of folder: String?) -> StoreMemory? {
        let variables: HomeFolder.Variables = { (name) throws(LockboxError) in try Environment[name] }
        let names = ["HOME", "XDG_STATE_HOME"].compactMap { try? Environment[$0] }
        guard names.contains(where: { !$0.isEmpty }), let state = try? HomeFolder.userState(variables) else {
            return nil
        }
        return StoreMemory("\(state)/lockbox/known-stores", of: folder)
    }

    // MARK: Reading

    /// Changes when the file does, and is nil if there is none that is believed.
    var state: FileState? {
        var status = stat()
        guard lstat(path, &status) == 0, Self.isOwn(status, S_IFREG), status.st_size <= Self.maximumLength
        else {
            return nil
        }
        return FileState(status)
    }

    var entries: [Entry] {
        guard let state else { return [] }
        return known.withLock { known in
            if let known, known.state == state { return known.entries }
            let bytes = FileManager.default.contents(atPath: path) ?? Data()
            let entries = bytes.split(separator: UInt8(ascii: "\n")).compactMap(Entry.init(line:))
            known = (state, entries)
            return entries
        }
    }

    func entry(of store: StoreID) -> Entry? { entries.first { $0.store == store } }

    /// Whether the store was in this folder.
    func isHere(_ entry: Entry) -> Bool { folder != nil && entry.folder == folder }

    // MARK: Writing

    /// Does nothing if a later keybag is remembered, or if the file cannot be written.
    ///
    /// - Parameter isUnlocked: Whether this is where the store is now. A program that only follows it may name the folder in another
    ///   way.
    func remember(_ store: StoreID, _ owner: [UInt8]?, _ numbers: Numbers, isUnlocked: Bool = true) {
        let folder = isUnlocked ? folder : entry(of: store)?.folder
        let new = Entry(store: store, owner: owner, numbers: numbers, folder: folder)
        func isKnown(_ entries: [Entry]) -> Bool {
            entries.contains { old in
                old == new || old.store == store && old.numbers.generation > numbers.generation
            }
        }
        if isKnown(entries) { return }
        change { entries in
            if isKnown(entries) { return }
            entries.removeAll { $0.store == store || isHere($0) }
            entries = entries.suffix(Self.maximumEntries - 1) + [new]
        }
    }

    /// Forgets a store, and the one that was in the folder.
    ///
    /// - Returns: Whether there was any.
    @discardableResult
    func forget(_ store: StoreID?) -> Bool {
        func isMeant(_ entry: Entry) -> Bool { entry.store == store || isHere(entry) }
        guard entries.contains(where: isMeant) else { return false }
        change { $0.removeAll(where: isMeant) }
        return true
    }

    private func change(_ body: (inout [Entry]) -> Void) {
        guard let folder = openFolder() else { return }
        defer { close(folder) }
        Self.lock(folder)
        var entries = entries
        body(&entries)
        do throws(LockboxError) {
            var file = try AtomicFile(path, SystemCalls())
            try file.write(entries.flatMap { Array("\($0.line)\n".utf8) })
            try file.finish()
        } catch {}
    }

    /// Whether the file's folder is one that this program writes to, or could be made.
    var isWritable: Bool {
        let folder = Path.parent(of: path)
        var status = stat()
        guard lstat(folder, &status) == 0 else { return Self.canBeMade(folder) }
        return Self.isOwn(status, S_IFDIR) && access(folder, W_OK | X_OK) == 0
    }

    private static func canBeMade(_ folder: String) -> Bool {
        let parent = Path.parent(of: folder)
        guard errno == ENOENT, !parent.isEmpty else { return false }
        var status = stat()
        guard stat(parent, &status) == 0 else { return canBeMade(parent) }
        return status.st_mode & S_IFMT == S_IFDIR && status.st_uid == geteuid()
            && access(parent, W_OK | X_OK) == 0
    }

    /// Opens the file's folder, or makes it.
    private func openFolder() -> CInt? {
        let folder = Path.parent(of: path)
        guard Self.make(folder) else { return nil }
        let opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
        var status = stat()
        if opened >= 0, fstat(opened, &status) == 0, Self.isOwn(status, S_IFDIR) { return opened }
        if opened >= 0 { close(opened) }
        return nil
    }

    /// Makes a folder in one that this user owns: root leaves nothing in another user's home.
    private static func make(_ folder: String) -> Bool {
        var status = stat()
        if stat(folder, &status) == 0 { return status.st_uid == geteuid() }
        let parent = Path.parent(of: folder)
        return errno == ENOENT && !parent.isEmpty && make(parent)
            && (mkdir(folder, 0o700) == 0 || errno == EEXIST)
    }

    private static func isOwn(_ status: stat, _ kind: mode_t) -> Bool {
        status.st_mode & S_IFMT == kind && status.st_uid == geteuid() && status.st_mode & 0o022 == 0
    }

    /// One program after the other changes the file. Gives up after 100 ms: a program that was stopped stops no other one, and a lost
    /// entry is made again by the next unlock.
    private static func lock(_ folder: CInt) {
        let end = ContinuousClock.now + .milliseconds(100)
        while flock(folder, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK || errno == EINTR, .now < end {
            usleep(1_000)
        }
    }
}

extension StoreMemory.Numbers {
    init(_ keybag: Keybag) { self.init(generation: keybag.generation, epoch: keybag.epoch) }
}

extension StoreMemory.Entry {
    fileprivate var line: String {
        let fields = [
            store.hexadecimal, owner?.hexadecimal ?? "-", "\(numbers.generation)", "\(numbers.epoch)",
        ]
        return (fields + [folder].compactMap(\.self)).joined(separator: " ")
    }

    /// Returns nil if it is none of this format.
    fileprivate init?(line: Data) {
        guard let text = String(validating: line, as: UTF8.self) else { return nil }
        let fields = text.split(separator: " ", maxSplits: 4, omittingEmptySubsequences: false).map(
            String.init
        )
        guard fields.count >= 4, let store = Data(hexadecimal: fields[0]), store.count == 16,
            let generation = UInt64(fields[2]), let epoch = UInt32(fields[3])
        else { return nil }
        let owner = Data(hexadecimal: fields[1])
        guard fields[1] == "-" || owner?.count == SigningKey.publicKeyLength else { return nil }
        self.store = store.withUnsafeBytes { $0.loadUnaligned(as: StoreID.self) }
        self.owner = owner.map(Array.init)
        numbers = StoreMemory.Numbers(generation: generation, epoch: epoch)
        // Otherwise it would hide those that count.
        guard numbers.isPlausible else { return nil }
        folder = fields.count == 5 ? fields[4] : nil
    }
}
