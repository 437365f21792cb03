import LockboxCore
import LockboxFiles
import LockboxPlatform

/// Records as flat files in a folder that only its owner can read.
///
/// ```
/// <directory>/                 0700
///   device-key  keybag  lock   0600
///   tmp/                       files on their way to their names
///   items/<namespace>/<record> a folder for each prefix, a file for each item
///   items/<namespace>/lock
/// ```
///
/// A record is written to `tmp`, synchronised, and renamed into its place, whose folder is synchronised then: the
/// name holds the old bytes or the new ones at every instant, also across a power cut. Owner, mode, type and link
/// count of everything are checked before a byte of it is used. Commits to a folder take turns by `flock`; one and the
/// same holder is waited for 30 seconds.
///
/// A store that does not exist yet is empty. The first commit makes it.
public final class FileStorage: RecordStorage {
    /// The store's folder, as an absolute path.
    public var directory: String { folders.directory }

    let folders: StoreFolders
    let calls: SystemCalls
    let lockTimeout: Duration

    /// Nothing is opened yet.
    ///
    /// - Parameter directory: The store's folder. A relative path is taken from the current directory as it is now.
    public convenience init(directory: String) {
        self.init(directory: directory, calls: SystemCalls())
    }

    init(directory: String, calls: SystemCalls, lockTimeout: Duration = .seconds(30)) {
        folders = StoreFolders(directory: directory, calls: calls)
        self.calls = calls
        self.lockTimeout = lockTimeout
    }

    /// What a file and memory can hold. Each record is changed by itself.
    public var limits: StorageLimits {
        StorageLimits(maximumLength: 1 << 30, maximumChanges: 1000, isTransactional: false)
    }

    /// The record's path.
    ///
    /// - Parameter record: Which one. It need not be there.
    public func location(of record: RecordName) -> String {
        "\(directory)/\(record.namespace.map { "items/\($0)/" } ?? "")\(record.name)"
    }

    // MARK: Looking up one record

    /// See ``RecordStorage/read(_:upTo:maximum:_:)``.
    public func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool {
        try folders.sparingDescriptors {
            let place = StoreFolders.Place(namespace: record.namespace)
            let folder = try folders.recent(place)
            if try folder?.readRecord(record.name, upTo: limit, maximum: maximum, body) == true {
                return true
            }
            return try lookAgain(place) {
                try $0.readRecord(record.name, upTo: limit, maximum: maximum, body)
            }
        }
    }

    /// Whether there is such a record, be it readable or not.
    func exists(_ record: RecordName) throws -> Bool {
        try folders.sparingDescriptors {
            try lookAgain(StoreFolders.Place(namespace: record.namespace)) { try $0.holds(record.name) }
        }
    }

    /// Believes that something is not there only if nobody was replacing a file meanwhile. A FUSE file system may have moved
    /// the old one out of the way, and not put the new one there yet.
    private func lookAgain(_ place: StoreFolders.Place, _ look: (Directory) throws -> Bool) throws -> Bool {
        for attempt in 0..<50 {
            guard let folder = try folders.current(place) else { return false }
            let before = try LockFile.count(of: folder)
            if try look(folder) { return true }
            if before.isMultiple(of: 2), try LockFile.count(of: folder) == before { return false }
            if attempt < 3 { continue }
            // Only a writer that was killed leaves an odd count to whoever gets the lock.
            if !before.isMultiple(of: 2), let lock = try? DirectoryLock.attempt(folder) {
                defer { lock.release() }
                return try look(folder)
            }
            usleep(1000)
        }
        return false
    }

    // MARK: Lists

    /// See ``RecordStorage/forEachName(in:waitingForCommits:_:)``.
    public func forEachName(
        in namespace: String,
        waitingForCommits: Bool,
        _ body: (String) throws -> Void
    ) throws {
        let place = StoreFolders.Place.namespace(namespace)
        let names = try folders.sparingDescriptors {
            try waitingForCommits ? namesBehindCommits(place) : completeNames(place)
        }
        for name in names where name != LockFile.name { try body(name) }
    }

    private func namesBehindCommits(_ place: StoreFolders.Place) throws -> NameList {
        guard try folders.current(place) != nil else { return NameList() }
        let (_, lock) = try acquireLock(place)
        defer { lock.release() }
        return try folders.existing(place).names()
    }

    /// Waits for writers that are at work, and never for one that was stopped.
    private func completeNames(_ place: StoreFolders.Place) throws -> NameList {
        let deadline = ContinuousClock.now + lockTimeout
        var patience = Duration.milliseconds(50)
        while true {
            guard let folder = try folders.current(place) else { return NameList() }
            if let names = try undisturbedNames(folder) { return names }
            // In line with the writers; not for long, as the one whose turn it is may have been stopped since.
            do {
                let lock = try folder.queue.acquire(folder, timeout: patience)
                defer { lock.release() }
                return try folder.names()
            } catch let error as LockboxError where error.isRefusal || error.isHeldLock {
                if ContinuousClock.now >= deadline { throw error }
                patience *= 2
                usleep(100)
            }
        }
    }

    /// Nil if a file was renamed meanwhile. Equal readings would prove nothing: each may have missed the same name.
    private func undisturbedNames(_ folder: Directory) throws -> NameList? {
        let before = try LockFile.count(of: folder)
        var names = try folder.names()
        if !before.isMultiple(of: 2) {
            // One rename is under way, or was when its process was killed or stopped. It disturbs one of two readings.
            try names.formUnion(folder.names())
        }
        return try LockFile.count(of: folder) == before ? names : nil
    }

    /// See ``RecordStorage/namespaces()``.
    public func namespaces() throws -> [String] {
        try folders.sparingDescriptors { try folders.current(.items).map { Array(try $0.names()) } ?? [] }
    }
}

extension LockboxError {
    /// Whether this process may not take the lock.
    var isRefusal: Bool {
        guard case .storageFailure(_, _, let code) = self else { return false }
        return [EROFS, EACCES, EPERM].contains(code)
    }

    /// Whether another has kept the lock too long.
    var isHeldLock: Bool {
        guard case .storageFailure("flock", _, EWOULDBLOCK) = self else { return false }
        return true
    }
}
