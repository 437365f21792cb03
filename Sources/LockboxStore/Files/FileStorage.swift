@_spi(Extensions) public import LockboxCore
import LockboxPlatform

/// Stores records as files in a folder that only its owner can access.
///
/// ```
/// <directory>/                 0700
///   device-key  keybag  lock   0600
///   device-key-copy  keybag-copy
///   tmp/                       temporary files, before they are renamed
///   quarantine/                what was set aside; nothing reads it
///   items/<namespace>/<record> a folder for each prefix, a file for each item
///   items/<namespace>/lock
/// ```
///
/// A record is written to `tmp`, synchronized, and renamed into its folder, which is then synchronized too. At
/// every instant, also across a power cut, the name refers to the old bytes or the new ones. The owner, mode
/// and type of every file and folder are checked before its contents are used. Writers lock a folder with `flock`, in
/// order of arrival, and wait at most 30 seconds by default for a holder that makes no progress. On FUSE, where locks are not shared,
/// the store is only read.
///
/// A store that does not exist yet is empty. The first commit creates it, in a new or empty folder. Files of other names stay.
@_spi(Extensions) public final class FileStorage: RecordStorage {
    /// The store's folder, as an absolute path.
    public var directory: String { folders.directory }

    /// The files of ``SealedBackend/default``.
    public static let `default` = FileStorage(StoreLocation.standard())

    let folders: StoreFolders
    var calls: SystemCalls { folders.calls }
    let lockTimeout: Duration

    /// Creates a storage. Reads and writes nothing.
    ///
    /// - Parameters:
    ///   - directory: The store's folder. A path that begins with `~/` is in the home folder. A relative path begins with
    ///     `./` or `../`, and is resolved immediately, against the current directory. Where no store can be, each call throws
    ///     ``LockboxError/invalidLocation(location:reason:)``: if the path is empty, looks like an address, or is not UTF-8.
    ///   - isForOneMachine: Whether only this machine uses the store, through one path. Then it may be written also on FUSE:
    ///     another mount of the same files does not see the locks, and changes would be lost. The environment variable
    ///     `LOCKBOX_ONE_MACHINE=1` says the same.
    ///   - lockTimeout: How long a write waits for another writer that makes no progress: it may have been stopped.
    public convenience init(
        directory: String,
        isForOneMachine: Bool = false,
        lockTimeout: Duration = .seconds(30)
    ) {
        self.init(StoreLocation(directory), lockTimeout: lockTimeout, isForOneMachine: isForOneMachine)
    }

    init(
        _ location: StoreLocation,
        calls: SystemCalls = SystemCalls(),
        lockTimeout: Duration = .seconds(30),
        isForOneMachine: Bool = false
    ) {
        folders = StoreFolders(location, calls: calls, isForOneMachine: isForOneMachine)
        self.lockTimeout = lockTimeout
    }

    /// Records of up to 1 GiB, and 1,000 changes in a commit. Not transactional: each record is changed
    /// separately.
    public var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: 1 << 30,
            maximumChanges: 1000,
            isTransactional: false,
            isOnThisDevice: true
        )
    }

    /// Returns the record's path.
    ///
    /// - Parameter record: The record's name. The record need not exist.
    public func location(of record: RecordName) -> String {
        "\(directory)/\(record.namespace.map { "items/\($0)/" } ?? "")\(record.name)"
    }

    // MARK: Looking up one record

    /// Calls a closure with the first bytes of a file, unless it does not exist.
    public func read(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws {
        let id = StoreFolders.FolderID(namespace: record.namespace)
        guard let folder = try folders.current(id, within: .milliseconds(1)) else { return }
        let found: Void? = try folder.readRecord(record, atLeast: minimum, maximum: maximum, body)
        if found != nil { return }
        _ = try confirmingAbsence(id) {
            try $0.readRecord(record, atLeast: minimum, maximum: maximum, body)
        }
    }

    /// Reads the files one after the other.
    public func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        var found: [RecordName: Record] = [:]
        for record in records {
            found[record] = try withContents(of: record, atLeast: .max, maximum: maximum) {
                Record(bytes: Array($0.bytes), revision: $0.revision)
            }
        }
        return found
    }

    /// Returns whether the record exists, readable or not.
    func exists(_ record: RecordName) throws -> Bool {
        let found: Void? = try confirmingAbsence(StoreFolders.FolderID(namespace: record.namespace)) {
            try $0.holds(record.name) ? () : nil
        }
        return found != nil
    }

    /// Accepts that a record is absent only if no file was being replaced meanwhile. During a replace, a FUSE
    /// file system may have moved the old file away and not yet put the new one in its place; elsewhere a look finds one of them.
    /// It does not wait for the lock, which the caller may hold: a writer that was stopped just then hides the file on FUSE.
    func confirmingAbsence<Result>(_ id: StoreFolders.FolderID, _ find: (Directory) throws -> Result?) throws
        -> Result?
    {
        for attempt in 0..<50 {
            guard let folder = try folders.current(id) else { return nil }
            let before: UInt64
            do { before = try LockFile.count(of: folder) } catch {
                // Another program's link or folder of that name is no lock of a store.
                if id == .root, try !folder.holds("keybag") { return try find(folder) }
                throw error
            }
            if let found = try find(folder) { return found }
            if before.isMultiple(of: 2), try LockFile.count(of: folder) == before { return nil }
            if attempt < 3 { continue }
            // If the count is odd and the lock is free, the writer was killed.
            if !before.isMultiple(of: 2),
                let found = try LockFile.withoutWriters(in: folder, { try find(folder) })
            {
                return found
            }
            calls.world.sleep(.milliseconds(1))
        }
        return nil
    }

    // MARK: Lists

    /// Calls a closure with the name of every file in a namespace's folder.
    public func forEachName(
        in namespace: String,
        waitingForCommits: Bool,
        _ body: (String) throws -> Void
    ) throws {
        let id = StoreFolders.FolderID.namespace(namespace)
        let names = try waitingForCommits ? namesBehindCommits(id) : completeNames(id)
        for name in names where name != LockFile.name { try body(name) }
    }

    private func namesBehindCommits(_ id: StoreFolders.FolderID) throws(LockboxError) -> NameList {
        guard try folders.current(id) != nil else { return NameList() }
        let held = try acquireLock(id)
        defer { held.lock.release() }
        return try held.folder.names()
    }

    /// Waits for running writers, but not for a stopped one.
    private func completeNames(_ id: StoreFolders.FolderID) throws(LockboxError) -> NameList {
        let deadline = calls.world.uptime + lockTimeout
        var patience = Duration.milliseconds(50)
        while true {
            guard let folder = try folders.current(id) else { return NameList() }
            if let names = try undisturbedNames(folder) { return names }
            // Waits in line with the writers, but only briefly: the next one may have been stopped.
            do {
                let lock = try folder.queue.acquire(folder, timeout: patience)
                defer { lock.release() }
                return try folder.names()
            } catch {
                guard error.isRefusal || error.code == .lockTimeout, calls.world.uptime < deadline,
                    !BlockingCall.isUnwanted
                else { throw error }
                patience *= 2
                calls.world.sleep(.microseconds(100))
            }
        }
    }

    /// Returns nil if a file was renamed meanwhile. Comparing two lists would not help, because both may lack
    /// the same name.
    private func undisturbedNames(_ folder: Directory) throws(LockboxError) -> NameList? {
        let before = try LockFile.count(of: folder)
        var names = try folder.names()
        if !before.isMultiple(of: 2) {
            // A rename is in progress, or was when its process was killed or stopped. It can hide a name from
            // only one of two lists.
            try names.formUnion(folder.names())
        }
        return try LockFile.count(of: folder) == before ? names : nil
    }

    /// Returns the names of the folders of namespaces.
    public func namespaces() throws(LockboxError) -> [String] {
        guard let items = try folders.current(.items) else { return [] }
        return Array(try items.names())
    }

    package func moment(of namespace: String) throws(LockboxError) -> FolderMoment? {
        guard let folder = try folders.current(.namespace(namespace)), !folder.isOnFUSE else { return nil }
        let count = try LockFile.count(of: folder)
        return count.isMultiple(of: 2) ? FolderMoment(folder: folder.identity, count: count) : nil
    }

    // MARK: Findings and quarantine

    /// Returns the files and folders in the store that do not belong there or are not safe to use.
    package func findings() throws(LockboxError) -> [StoreFinding] {
        guard let root = try folders.folder(.root, creating: false) else { return [] }
        let own: Set = [
            "keybag", "keybag-copy", "device-key", "device-key-copy", "lock", "items", "tmp", "quarantine",
        ]
        var findings: [StoreFinding] = []
        for name in try root.names() where !own.contains(name) {
            // overlayfs may list a file that is just renamed into the folder by its former name.
            if try root.holds(name) { findings.append(foreign(root.filePath(name))) }
        }
        do { findings += try temporaryFindings(in: root) } catch {
            findings.append(StoreFinding(error, location: root.filePath("tmp")))
        }
        findings += lockFindings(in: root)
        // One after the other: each open folder is a descriptor.
        for namespace in try namespaces() {
            let folder = try? folders.folder(.namespace(namespace), creating: false)
            if let folder { findings += lockFindings(in: folder) }
        }
        return findings
    }

    private func lockFindings(in folder: Directory) -> [StoreFinding] {
        let location = folder.filePath(LockFile.name)
        do throws(LockboxError) {
            if try LockFile.isOneOrAbsent(in: folder) { return [] }
            return [
                StoreFinding(kind: .foreign, location: location, reason: "a lock has no bytes, or eight")
            ]
        } catch {
            return [StoreFinding(error, location: location)]
        }
    }

    private func temporaryFindings(in root: Directory) throws(LockboxError) -> [StoreFinding] {
        guard let temporary = try root.directory("tmp", creating: false) else { return [] }
        var findings: [StoreFinding] = []
        for name in try temporary.names() {
            let location = temporary.filePath(name)
            if AbandonedFiles.age(of: name, in: temporary) != nil {
                let reason = "its writer was killed or is still running"
                findings.append(StoreFinding(kind: .leftover, location: location, reason: reason))
            } else if try temporary.holds(name) {  // otherwise its writer has just renamed it into its place
                findings.append(foreign(location))
            }
        }
        return findings
    }

    private func foreign(_ location: String) -> StoreFinding {
        StoreFinding(kind: .foreign, location: location, reason: "it does not belong to the store")
    }

    /// Moves a record's file, link or folder into the store's folder `quarantine`, where nothing reads it, and returns its path.
    func quarantine(_ record: RecordName, under locks: FolderLocks) throws(LockboxError) -> String {
        let path = try moveAside(record, under: locks)
        try synchronizeFolders(of: locks)
        return path
    }

    func moveAside(_ record: RecordName, under locks: FolderLocks) throws(LockboxError) -> String {
        let (_, folder, lock) = locks.held(for: .init(namespace: record.namespace))
        guard try folder.holds(record.name) else { throw LockboxError.missing(record: subject(of: record)) }
        let quarantine = try folders.folderForWriting(.quarantine)
        // The same name may be set aside more than once.
        let name = "\(record.name).\(String(world.randomNumber, radix: 16))"
        try lock.setRenaming(true)
        let renamed = calls.rename(record.name, at: folder.descriptor, to: name, at: quarantine.descriptor)
        try? lock.setRenaming(false)
        try check(renamed, "rename", folder.filePath(record.name))
        try quarantine.synchronizeChanges()
        return quarantine.filePath(name)
    }
}

@_spi(Extensions) extension FileStorage: WatchingStorage {
    /// Begins to report changes of the records in a namespace. Supported on Linux, for changes that are made on this
    /// machine.
    public func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws(LockboxError) -> @Sendable () -> Void {
        if let refusal = folders.location.refusal { throw refusal }
        // The store's folder can be moved, and with it the folders `items` and the namespace's.
        let watch = try FolderWatch("\(directory)/items/\(namespace)", depth: 3)
        try watch.start(report)
        return { watch.cancel() }
    }
}

extension FileStorage: FilingStorage, InspectedStorage {
    package func synchronize(_ namespace: String?) throws(LockboxError) {
        try synchronizeFolder(.init(namespace: namespace))
    }

    package func unsafeBeginning(of record: RecordName, count: Int) -> [UInt8]? {
        guard let folder = try? folders.current(.init(namespace: record.namespace)) else { return nil }
        let file = CInt(calls.open(record.name, at: folder.descriptor, O_RDONLY))
        guard file >= 0 else { return nil }
        defer { calls.close(file) }
        var bytes = [UInt8](repeating: 0, count: count)
        return bytes.withUnsafeMutableBytes { calls.read(file, into: $0) } == count ? bytes : nil
    }
}

extension FileStorage: Undescribed {
    /// The store's folder.
    package var summary: String { "FileStorage(\(directory))" }
}

/// See ``FilingStorage/moment(of:)``.
package struct FolderMoment: Equatable {
    let folder: FileIdentity
    /// See ``LockFile``.
    let count: UInt64
}

/// Shows the other processes of this machine that this one lives: a file in `tmp`, whose lock the kernel releases when its process
/// dies. Its bytes keep room for what is to be stored.
package final class Presence: Sendable {
    package let name: String
    private let folder: Directory
    private let file: Protected<CInt?>

    fileprivate init(_ folder: Directory, room: Int) throws(LockboxError) {
        self.folder = folder
        name = AbandonedFiles.newName()
        do { file = Protected(try folder.create(name, Array(repeating: 0, count: room))) } catch {
            folder.remove(name)
            throw error
        }
    }

    deinit { end() }

    /// Whether the lock is its own, and not a sweeper's.
    fileprivate var isLocked: Bool {
        file.withLock { file in file.map { folder.calls.lock($0) >= 0 } ?? false }
    }

    /// Gives the room back, to be written to.
    package func giveRoom() { file.withLock { file in file.map { _ = folder.calls.truncate($0, to: 0) } } }

    package func end() {
        let file = file.withLock { file in
            defer { file = nil }
            return file
        }
        guard let file else { return }
        folder.remove(name)
        folder.calls.unlock(file)  // a forked child may have it too
        folder.calls.close(file)
    }
}

extension FileStorage {
    package func presence(room: Int) throws(LockboxError) -> Presence {
        while true {
            let presence = try Presence(folders.folderForWriting(.temporary), room: room)
            // Not if it was swept away between its creation and its lock.
            if presence.isLocked, try isPresent(presence.name) { return presence }
        }
    }

    package func isPresent(_ name: String) throws(LockboxError) -> Bool {
        guard AbandonedFiles.isName(name), let folder = try folders.current(.temporary) else { return false }
        return try !AbandonedFiles.isAbandoned(name, in: folder)
    }
}

/// The files in `tmp`: temporary files of running writers, and those that killed writers left behind.
enum AbandonedFiles {
    private static let prefix = "lockbox-"
    private static let digits = 32

    /// In seconds. What is younger stays, because a clock may be wrong by hours, and a writer has its file for a moment before it
    /// has the lock.
    private static let minimumAge = 24 * 60 * 60

    /// Returns `lockbox-` and 32 hexadecimal digits.
    static func newName() -> String {
        prefix
            + [world.randomNumber, world.randomNumber].flatMap { withUnsafeBytes(of: $0, Array.init) }
            .hexadecimal
    }

    static func isName(_ name: String) -> Bool {
        name.hasPrefix(prefix) && name.utf8.count == prefix.utf8.count + digits
            && name.dropFirst(prefix.count).allSatisfy { "0123456789abcdef".contains($0) }
    }

    /// Removes the files of killed writers: those that have such a name, a day old, and whose locks are free. Ignores errors.
    static func sweep(_ temporary: Directory) {
        guard let names = try? temporary.names() else { return }
        for name in names where age(of: name, in: temporary) ?? 0 > minimumAge {
            _ = try? isAbandoned(name, in: temporary) { temporary.remove(name) }
        }
    }

    /// Returns the age of a writer's file in seconds, or nil for anything else.
    static func age(of name: String, in temporary: Directory) -> Int? {
        var status = stat()
        guard isName(name), temporary.calls.stat(name, at: temporary.descriptor, &status) == 0,
            status.st_mode & S_IFMT == S_IFREG
        else { return nil }
        let now = Int(temporary.calls.world.date.timeIntervalSince1970)
        return now.subtractingReportingOverflow(modificationTime(status).tv_sec).partialValue
    }

    /// Whether no writer has the file's lock. If so, calls `body` with the lock: a writer that has only just created the file
    /// does not get it then, and creates another one.
    ///
    /// - Throws: The reason why this cannot be told, such as too few descriptors.
    fileprivate static func isAbandoned(
        _ name: String,
        in temporary: Directory,
        _ body: () -> Void = {}
    ) throws(LockboxError) -> Bool {
        let (calls, path) = (temporary.calls, temporary.filePath(name))
        let result = calls.open(name, at: temporary.descriptor, O_RDONLY)
        // No writer makes a link, a socket or a file that it may not open.
        if [ENOENT, ELOOP, ENXIO, EACCES].contains(CInt(-result)) {
            body()
            return true
        }
        let file = CInt(try check(result, "open", path))
        defer { calls.close(file) }
        let locked = calls.lock(file)
        if locked == -Int(EWOULDBLOCK) { return false }
        try check(locked, "flock", path)
        body()
        return true
    }
}
