@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// The stores that this user's programs have unlocked: a file of public values outside every store, like ssh's `known_hosts`. With
/// it, a program that has just started knows an older or forged store.
///
/// A line is the store's ID, the owner's public key or a dash, generation, epoch, and the store's folder if it is in one. A store is
/// found by its ID, which a copy has too, and another store by the folder that it was put in. The file is believed if only this user
/// can write it, and counts as empty otherwise: an attacker who can write the user's files could remove it.
final class StoreMemory: Sendable {
    struct Entry: Equatable {
        let store: StoreID
        /// A store without slots has none: everybody with the device key has its keys.
        let owner: [UInt8]?
        let numbers: KeybagNumbers
        let folder: String?
    }

    /// The stores that were changed longest ago are forgotten.
    static let maximumEntries = 256
    private static let maximumLength = 1 << 20

    let path: String
    /// A store in a cluster has none.
    let folder: String?
    private let calls = SystemCalls()
    private let known = Protected<(state: FileState, entries: [Entry])?>(nil)

    init(_ path: String, of folder: String?) {
        self.path = path
        // A line ends with it.
        self.folder = folder.flatMap { $0.utf8.contains(UInt8(ascii: "\n")) ? nil : Self.resolved($0) }
    }

    /// The folder by one name, whatever links and spelling lead to it, also if it is gone.
    private static func resolved(_ folder: String) -> String {
        var code: CInt = 0
        if let found = world.resolved(folder, &code) { return String(decoding: found, as: UTF8.self) }
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
        let found = calls.stat(path, at: SystemCalls.currentDirectory, &status)
        guard found == 0, isOwn(status, S_IFREG), status.st_size <= Self.maximumLength else { return nil }
        return FileState(status)
    }

    var entries: [Entry] {
        guard let state else { return [] }
        return known.withLock { known in
            if let known, known.state == state { return known.entries }
            let bytes = calls.contents(of: path) ?? []
            let entries = bytes.split(separator: UInt8(ascii: "\n")).compactMap(Entry.init(line:))
            known = (state, entries)
            return entries
        }
    }

    func entry(of store: StoreID) -> Entry? { entries.first { $0.store == store } }

    /// Whether the store was in this folder.
    func isHere(_ entry: Entry) -> Bool { folder != nil && entry.folder == folder }

    // MARK: Writing

    /// Does nothing if a later keybag is remembered, or if the file cannot be written just then.
    ///
    /// - Parameters:
    ///   - isUnlocked: Whether this is where the store is now. A program that only follows it may name the folder in another way.
    ///   - isAccepted: Whether the owner has accepted it in the place of a later one.
    func remember(
        _ store: StoreID,
        _ owner: [UInt8]?,
        numbers: KeybagNumbers,
        isUnlocked: Bool = true,
        isAccepted: Bool = false
    ) {
        let folder = isUnlocked ? folder : entry(of: store)?.folder
        let new = Entry(store: store, owner: owner, numbers: numbers, folder: folder)
        func isKnown(_ entries: [Entry]) -> Bool {
            entries.contains { old in
                old == new
                    || old.store == store && old.numbers.generation > numbers.generation && !isAccepted
            }
        }
        if isKnown(entries) { return }
        _ = try? change(evenUnlocked: isAccepted) { entries in
            if isKnown(entries) { return }
            entries.removeAll { $0.store == store || isHere($0) }
            entries = entries.suffix(Self.maximumEntries - 1) + [new]
        }
    }

    /// Forgets the store that was in the folder.
    ///
    /// - Returns: Whether there was any.
    @discardableResult
    func forget() throws -> Bool {
        guard entries.contains(where: isHere) else { return false }
        try change(evenUnlocked: true) { $0.removeAll(where: isHere) }
        return true
    }

    /// - Parameter evenUnlocked: Whether the owner waits for it, so that a program that was stopped with the lock must not prevent it.
    private func change(evenUnlocked: Bool, _ body: (inout [Entry]) -> Void) throws(LockboxError) {
        guard let folder = openFolder() else {
            throw .readOnly(location: path, reason: "its folder cannot be opened or made by this user")
        }
        defer { calls.close(folder) }
        guard lock(folder) || evenUnlocked else { throw .lockTimeout(location: path) }
        var entries = entries
        body(&entries)
        var file = try AtomicFile(path, calls)
        try file.write(entries.flatMap { Array("\($0.line)\n".utf8) })
        try file.finish()
    }

    /// Whether the file's folder is one that this program writes to, or could be made.
    var isWritable: Bool { isWritable(Path.parent(of: path), isThere: isOwn) }

    /// - Parameter isFit: Whether a folder that is there will do.
    private func isWritable(_ folder: String, isThere isFit: (stat, mode_t) -> Bool) -> Bool {
        var status = stat()
        let found = calls.world.stat(folder, at: SystemCalls.currentDirectory, &status, followingLinks: true)
        if found == 0 { return isFit(status, S_IFDIR) && calls.world.access(folder, W_OK | X_OK) == 0 }
        guard found == -Int(ENOENT), folder.utf8.count > 1 else { return false }
        return isWritable(Path.parent(of: folder)) {
            $0.st_mode & S_IFMT == $1 && $0.st_uid == calls.world.user
        }
    }

    /// Opens the file's folder, or makes it.
    private func openFolder() -> CInt? {
        let folder = Path.parent(of: path)
        guard make(folder) else { return nil }
        let opened = CInt(calls.open(folder, at: SystemCalls.currentDirectory, O_RDONLY | O_DIRECTORY))
        var status = stat()
        if opened >= 0, calls.fstat(opened, &status) == 0, isOwn(status, S_IFDIR) { return opened }
        if opened >= 0 { calls.close(opened) }
        return nil
    }

    /// Makes a folder in one that this user owns: root leaves nothing in another user's home.
    private func make(_ folder: String) -> Bool {
        var status = stat()
        let found = calls.world.stat(folder, at: SystemCalls.currentDirectory, &status, followingLinks: true)
        if found == 0 { return status.st_uid == calls.world.user }
        let parent = Path.parent(of: folder)
        guard found == -Int(ENOENT), !parent.isEmpty, make(parent) else { return false }
        let made = calls.mkdir(folder, at: SystemCalls.currentDirectory, mode: 0o700)
        return made == 0 || made == -Int(EEXIST)
    }

    private func isOwn(_ status: stat, _ kind: mode_t) -> Bool {
        status.st_mode & S_IFMT == kind && status.st_uid == calls.world.user && status.st_mode & 0o022 == 0
    }

    /// One program after the other changes the file. Gives up after 100 ms: a program that was stopped stops no other one, and the
    /// next unlock makes the entry.
    private func lock(_ folder: CInt) -> Bool {
        let end = calls.world.uptime + .milliseconds(100)
        while calls.lock(folder) == -Int(EWOULDBLOCK) {
            if calls.world.uptime >= end { return false }
            calls.world.sleep(.milliseconds(1))
        }
        return true
    }
}

extension StoreMemory.Entry {
    fileprivate var line: String {
        let fields = [
            store.hexadecimal, owner?.hexadecimal ?? "-", "\(numbers.generation)", "\(numbers.epoch)",
        ]
        return (fields + [folder].compactMap(\.self)).joined(separator: " ")
    }

    /// Returns nil if it is none of this format.
    fileprivate init?(line: ArraySlice<UInt8>) {
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
        numbers = KeybagNumbers(generation: generation, epoch: epoch)
        // Otherwise it would hide those that count.
        guard numbers.isPlausible else { return nil }
        folder = fields.count == 5 ? fields[4] : nil
    }
}
