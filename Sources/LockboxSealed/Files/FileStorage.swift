import LockboxCore
import LockboxFiles
import LockboxPlatform

/// Records as flat files in a folder that only its owner can read.
///
/// ```
/// <directory>/                 0700
///   device-key  keybag  lock   0600
///   tmp/                       files on their way to their names
///   items/<scope>/<record>     a folder for each prefix, a file for each item
///   items/<scope>/lock
/// ```
///
/// A record is written to `tmp`, synchronised, and renamed into its place, whose folder is synchronised then: the
/// name holds the old bytes or the new ones at every instant, also across a power cut. Owner, mode, type and link
/// count of everything are checked before a byte of it is used.
///
/// A store that does not exist yet is empty. The first write makes it.
public final class FileStorage: RecordStorage {
    /// The store's folder, as an absolute path.
    public var directory: String { folders.directory }

    private typealias Place = StoreFolders.Place

    private let folders: StoreFolders
    private let calls: SystemCalls
    private let lockTimeout: Duration
    /// The locks that are held now.
    private let locks = Protected<[Place: DirectoryLock]>([:])

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

    // MARK: Looking up one record

    /// See ``RecordStorage/read(_:upTo:maximum:_:)``.
    public func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (UnsafeMutableRawBufferPointer) throws -> Void
    ) throws -> Bool {
        try folders.sparingDescriptors {
            let place = Place(scope: record.scope)
            let folder = try folders.recent(place)
            if try folder?.readFile(record.name, upTo: limit, maximum: maximum, body) == true { return true }
            return try lookAgain(place) {
                try $0.readFile(record.name, upTo: limit, maximum: maximum, body)
            }
        }
    }

    /// See ``RecordStorage/exists(_:)``.
    public func exists(_ record: RecordName) throws -> Bool {
        try folders.sparingDescriptors {
            try lookAgain(Place(scope: record.scope)) { folder in
                var status = stat()
                let result = calls.stat(record.name, at: folder.descriptor, &status)
                if result == -Int(ENOENT) { return false }
                try check(result, "stat", folder.filePath(record.name))
                return true
            }
        }
    }

    /// Believes that something is not there only if nobody was replacing a file meanwhile. A FUSE file system may have moved
    /// the old one out of the way, and not put the new one there yet.
    private func lookAgain(_ place: Place, _ look: (Directory) throws -> Bool) throws -> Bool {
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

    /// See ``RecordStorage/revision(of:maximum:)``. It is made of the record's bytes: device, inode, size and time of change of a file
    /// can repeat together.
    public func revision(of record: RecordName, maximum: Int) throws -> RecordRevision? {
        var revision: RecordRevision?
        _ = try read(record, upTo: maximum, maximum: maximum) { revision = RecordRevision(of: $0) }
        return revision
    }

    /// The record's path.
    ///
    /// - Parameter record: Which one. It need not be there.
    public func location(of record: RecordName) -> String {
        "\(directory)/\(record.scope.map { "items/\($0)/" } ?? "")\(record.name)"
    }

    // MARK: Lists

    /// See ``RecordStorage/forEachName(in:_:)``.
    public func forEachName(in scope: String, _ body: (String) throws -> Void) throws {
        let names = try folders.sparingDescriptors { try completeNames(.scope(scope)) }
        for name in names where name != LockFile.name { try body(name) }
    }

    /// Waits for writers that are at work, and never for one that was stopped.
    private func completeNames(_ place: Place) throws -> NameList {
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

    /// See ``RecordStorage/scopes()``.
    public func scopes() throws -> [String] {
        try folders.sparingDescriptors { try folders.current(.items).map { Array(try $0.names()) } ?? [] }
    }

    /// See ``RecordStorage/strays()``.
    public func strays() throws -> [VerifyReport.Finding] {
        guard let root = try folders.rootAsItIs() else { return [] }
        var report = VerifyReport()
        for name in try root.names() where !["keybag", "device-key", "lock", "items", "tmp"].contains(name) {
            report.add(.foreign, root.filePath(name), "it is none of the store's files")
        }
        do {
            if let temporary = try root.directory("tmp", creating: false) {
                for name in try temporary.names() {
                    report.add(.leftOver, temporary.filePath(name), "a writer was killed, or is at work")
                }
            }
        } catch let error as LockboxError {
            report.add(error, root.filePath("tmp"))
        }
        let scopes = try scopes().compactMap { try? folders.folder(.scope($0), creating: false) }
        for folder in [root] + scopes {
            do { try folder.checkFile(LockFile.name) } catch let error as LockboxError {
                report.add(error, folder.filePath(LockFile.name))
            }
        }
        return report.findings
    }

    // MARK: Changes

    /// See ``RecordStorage/replace(_:_:)``.
    public func replace(_ record: RecordName, _ bytes: [UInt8]) throws {
        let place = Place(scope: record.scope)
        guard let lock = locks.withLock({ $0[place] }) else {
            return try withLock(on: record.scope) { try replace(record, bytes) }
        }
        try folders.sparingDescriptors {
            let folder = try folders.existing(place)
            let name = Leftovers.temporaryName(scope: record.scope)
            let temporary = try writeTemporaryFile(name, bytes)
            let renamed = try lock.renaming {
                calls.rename(name, at: temporary.descriptor, to: record.name, at: folder.descriptor)
            }
            if renamed < 0 { _ = calls.unlink(name, at: temporary.descriptor) }
            try check(renamed, "rename", folder.filePath(record.name))
            try folder.synchronize()
        }
    }

    /// Returns the folder that it is in.
    private func writeTemporaryFile(_ name: String, _ bytes: [UInt8]) throws -> Directory {
        let temporary = try folders.existing(.temporary)
        do {
            try temporary.writeFile(name, bytes)
            return temporary
        } catch LockboxError.storageFailure("open", _, ENOENT) {
            // Somebody has removed the folder.
            try folders.reopen()
            let temporary = try folders.existing(.temporary)
            try temporary.writeFile(name, bytes)
            return temporary
        }
    }

    /// See ``RecordStorage/remove(_:scope:)``.
    public func remove(_ names: [String], scope: String?) throws {
        let place = Place(scope: scope)
        guard let folder = try folders.sparingDescriptors({ try folders.folder(place, creating: false) })
        else {
            return
        }
        var failure: (any Error)?
        for name in names {
            do { try folder.removeFile(name) } catch {
                failure = error
                break
            }
        }
        // Also if nothing was there: who removed it may have been killed before it could synchronise. And what has
        // been removed stays removed, also if more was to go.
        try folder.synchronize()
        if let failure { throw failure }
    }

    /// See ``RecordStorage/withLock(on:_:)``. One and the same holder is waited for 30 seconds.
    public func withLock<Result>(on scope: String?, _ body: () throws -> Result) throws -> Result {
        let place = Place(scope: scope)
        let lock = try folders.sparingDescriptors { try acquireLock(place) }
        locks.withLock { $0[place] = lock }
        defer {
            locks.withLock { $0[place] = nil }
            lock.release()
        }
        return try body()
    }

    /// The lock of the folder that is there when it is had: the store may have been moved while it was waited for.
    private func acquireLock(_ place: Place) throws -> DirectoryLock {
        if place != .root { try folders.sweepOnce() }  // who takes the root's lock may only be waiting
        while true {
            let folder = try folders.existing(place)
            let lock = try folder.queue.acquire(folder, timeout: lockTimeout)
            if try folders.isInPlace(folder, place) { return lock }
            lock.release()
            try folders.reopen()
        }
    }
}
