public import LockboxCore
import LockboxFiles
import LockboxPlatform

/// Stores records as files in a folder that only its owner can access.
///
/// ```
/// <directory>/                 0700
///   device-key  keybag  lock   0600
///   tmp/                       temporary files, before they are renamed
///   quarantine/                what was set aside; nothing reads it
///   items/<namespace>/<record> a folder for each prefix, a file for each item
///   items/<namespace>/lock
/// ```
///
/// A record is written to `tmp`, synchronized, and renamed into its folder, which is then synchronized too. At
/// every instant, also across a power cut, the name refers to the old bytes or the new ones. The owner, mode
/// and type of every file and folder are checked before its contents are used. Writers lock a folder with `flock`, in
/// order of arrival, and wait at most 30 seconds for a holder that makes no progress. On FUSE, where locks are not shared,
/// the store is only read.
///
/// A store that does not exist yet is empty. The first commit creates it.
public final class FileStorage: LockingStorage {
    /// The store's folder, as an absolute path.
    public var directory: String { folders.directory }

    let folders: StoreFolders
    let calls: SystemCalls
    let lockTimeout: Duration

    /// Creates a storage. Reads and writes nothing.
    ///
    /// - Parameters:
    ///   - directory: The store's folder. A path that begins with `~/` is in the home folder. A relative path is resolved
    ///     immediately, against the current directory. Where no store can be, each call throws
    ///     ``LockboxError/invalidLocation(location:reason:)``: if the path is empty, looks like an address, or is not UTF-8.
    ///   - isForOneMachine: Whether only this machine uses the store, through one path. Then it may be written also on FUSE:
    ///     another mount of the same files does not see the locks, and changes would be lost. The environment variable
    ///     `LOCKBOX_ONE_MACHINE=1` says the same.
    public convenience init(directory: String, isForOneMachine: Bool = false) {
        self.init(StoreLocation(directory), isForOneMachine: isForOneMachine)
    }

    convenience init(
        directory: String,
        calls: SystemCalls,
        lockTimeout: Duration = .seconds(30),
        isForOneMachine: Bool = false
    ) {
        self.init(
            StoreLocation(directory),
            calls: calls,
            lockTimeout: lockTimeout,
            isForOneMachine: isForOneMachine
        )
    }

    init(
        _ location: StoreLocation,
        calls: SystemCalls = SystemCalls(),
        lockTimeout: Duration = .seconds(30),
        isForOneMachine: Bool = false
    ) {
        folders = StoreFolders(location, calls: calls, isForOneMachine: isForOneMachine)
        self.calls = calls
        self.lockTimeout = lockTimeout
    }

    /// Records of up to 1 GiB, and 1,000 changes in a commit. Not transactional: each record is changed
    /// separately.
    public var limits: StorageLimits {
        StorageLimits(maximumRecordLength: 1 << 30, maximumChanges: 1000, isTransactional: false)
    }

    /// Always `true`.
    public var isOnThisDevice: Bool { true }

    /// Returns the record's path.
    ///
    /// - Parameter record: The record's name. The record need not exist.
    public func location(of record: RecordName) -> String {
        "\(directory)/\(record.namespace.map { "items/\($0)/" } ?? "")\(record.name)"
    }

    // MARK: Looking up one record

    /// Calls a closure with the first bytes of a file. Returns false if it does not exist.
    public func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool {
        try folders.sparingDescriptors {
            let id = StoreFolders.FolderID(namespace: record.namespace)
            guard let folder = try folders.current(id, within: 1_000_000) else { return false }
            if try folder.readRecord(record.name, upTo: limit, maximum: maximum, body) { return true }
            return try lookAgain(id) {
                try $0.readRecord(record.name, upTo: limit, maximum: maximum, body)
            }
        }
    }

    /// Returns whether the record exists, readable or not.
    func exists(_ record: RecordName) throws -> Bool {
        try folders.sparingDescriptors {
            try lookAgain(StoreFolders.FolderID(namespace: record.namespace)) { try $0.holds(record.name) }
        }
    }

    /// Accepts that a record is absent only if no file was being replaced meanwhile. During a replace, a FUSE
    /// file system may have moved the old file away and not yet put the new one in its place.
    func lookAgain(_ id: StoreFolders.FolderID, _ look: (Directory) throws -> Bool) throws -> Bool {
        for attempt in 0..<50 {
            guard let folder = try folders.current(id) else { return false }
            let before = try LockFile.count(of: folder)
            if try look(folder) { return true }
            if before.isMultiple(of: 2), try LockFile.count(of: folder) == before { return false }
            if attempt < 3 { continue }
            // If the count is odd and the lock is free, the writer was killed.
            if !before.isMultiple(of: 2), let lock = try? DirectoryLock.attempt(folder) {
                defer { lock.release() }
                return try look(folder)
            }
            usleep(1000)
        }
        return false
    }

    // MARK: Lists

    /// Calls a closure with the name of every file in a namespace's folder.
    public func forEachName(
        in namespace: String,
        waitingForCommits: Bool,
        _ body: (String) throws -> Void
    ) throws {
        let id = StoreFolders.FolderID.namespace(namespace)
        let names = try folders.sparingDescriptors {
            try waitingForCommits ? namesBehindCommits(id) : completeNames(id)
        }
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
        let deadline = ContinuousClock.now + lockTimeout
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
                guard error.isRefusal || error.code == .lockTimeout, ContinuousClock.now < deadline else {
                    throw error
                }
                patience *= 2
                usleep(100)
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
        try folders.sparingDescriptors { () throws(LockboxError) in
            guard let items = try folders.current(.items) else { return [] }
            return Array(try items.names())
        }
    }
}
