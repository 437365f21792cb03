@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// A folder's exclusive lock, while it is held.
final class DirectoryLock: Sendable {
    private let file: LockFile
    private let queue: LockQueue
    private let state = Protected(State())

    private struct State {
        var isHeld = true
        /// The change count, or nil until it has been read.
        var count: UInt64?
        var hasRenamed = false
    }

    /// - Parameters:
    ///   - file: The lock file, already locked.
    ///   - queue: Notified when the lock is released.
    init(_ file: LockFile, _ queue: LockQueue) {
        self.file = file
        self.queue = queue
    }

    deinit { release() }

    /// Whether it is held, and others wait for it and not for that of a file in its place.
    var isInPlace: Bool {
        get throws(LockboxError) { if state.withLock(\.isHeld) { try file.isInPlace } else { false } }
    }

    /// Whether no process has had it before, or only one that was killed.
    var isFirst: Bool { file.isNew }

    /// Releases the lock.
    func release() {
        let state = state.withLock { state in
            defer { state.isHeld = false }
            return state
        }
        guard state.isHeld else { return }
        // Shows waiting processes that the holder has changed. If this fails, they may only time out too early.
        if !state.hasRenamed { try? setRenaming(false) }
        let isWaitedFor = file.isWaitedFor
        file.unlock()
        queue.leave(givingWayAfter: isWaitedFor ? self.state.withLock(\.count) : nil)
    }

    /// Advances the change count, which also shows waiting processes that the holder makes progress: they wait only so long
    /// for the same count.
    ///
    /// - Parameter isRenaming: True before a file is renamed into the folder, and false afterwards. The count is odd in between,
    ///   because some file systems hide a file's name while it is replaced: btrfs from readers of the folder, FUSE also from
    ///   lookups.
    func setRenaming(_ isRenaming: Bool) throws(LockboxError) {
        let old = if let count = state.withLock(\.count) { count } else { try file.count() }
        // It is already odd if a previous holder was killed during a rename.
        let count = isRenaming ? (old &+ 1) | 1 : (old | 1) &+ 1
        try file.setCount(count)
        state.withLock { state in
            state.count = count
            if isRenaming { state.hasRenamed = true }
        }
    }
}

/// The locks of one or more folders, held until they are released or deallocated.
final class FolderLocks: QuarantiningLock {
    /// The folder stays open while its lock is held. Changes go there: another folder may be at its path by now.
    typealias Held = (id: StoreFolders.FolderID, folder: Directory, lock: DirectoryLock)

    private let storage: FileStorage
    let held: [Held]

    init(_ storage: FileStorage, _ held: [Held]) { (self.storage, self.held) = (storage, held) }

    deinit { release() }

    func release() { for held in held { held.lock.release() } }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        try storage.commit(changes, expecting: expecting, under: self)
    }

    func quarantine(_ record: RecordName) throws -> String {
        guard try keepOthersOut(of: [record.namespace]) else {
            throw LockboxError.conflict(record: storage.location(of: record))
        }
        return try storage.quarantine(record, under: self)
    }

    /// Whether the locks are those of the namespaces, and still keep others out. They do not if the store was moved meanwhile, or a
    /// lock file removed. They are released then: the thread would wait for itself.
    func keepOthersOut(of namespaces: [String?]) throws(LockboxError) -> Bool {
        for held in held {
            if try storage.folders.isInPlace(held.folder, held.id), try held.lock.isInPlace { continue }
            release()
            return false
        }
        return namespaces.allSatisfy { covers(.init(namespace: $0)) }
    }

    func covers(_ id: StoreFolders.FolderID) -> Bool { held.contains { $0.id == id } }

    func held(for id: StoreFolders.FolderID) -> Held { held.first { $0.id == id }! }
}

/// A folder's open `lock` file. It is never renamed or removed. `flock` on it is the folder's exclusive lock,
/// which the kernel releases when its holder dies.
///
/// The file contains the folder's change count, a little-endian `u64`. It is odd while a file is being renamed
/// into the folder, different after each holder, and advances while a holder writes many files. It tells readers whether a writer
/// has interfered; only then do they take the lock.
final class LockFile: Sendable {
    static let name = "lock"

    private let directory: Directory
    private let descriptor: CInt
    private let identity: FileIdentity
    /// Whether no process had released the lock yet when the file was opened.
    let isNew: Bool
    private var calls: SystemCalls { directory.calls }
    private var path: String { directory.filePath(Self.name) }

    deinit { calls.close(descriptor) }

    /// Opens the file to take the lock. Creates it if it does not exist.
    init(_ directory: Directory) throws(LockboxError) {
        let calls = directory.calls
        let result = calls.open(Self.name, at: directory.descriptor, O_RDWR | O_CREAT, mode: 0o600)
        descriptor = CInt(try directory.checkOpened(result, Self.name))
        do {
            let status = try directory.checkedStatus(of: descriptor, Self.name)
            if status.st_mode & 0o600 != 0o600 {  // made under a umask that takes it from ourselves
                try check(calls.chmod(descriptor, mode: 0o600), "chmod", directory.filePath(Self.name))
            }
            (identity, isNew) = (FileIdentity(status), status.st_size == 0)
            self.directory = directory
        } catch {
            calls.close(descriptor)
            throw error
        }
    }

    // MARK: The lock

    /// Takes the lock. Returns false if another process holds it.
    func lock() throws(LockboxError) -> Bool {
        let result = calls.lock(descriptor)
        if result == -Int(EWOULDBLOCK) { return false }
        try check(result, "flock", path)
        return true
    }

    /// Takes the lock, waiting as long as necessary. The kernel serves waiting processes in order, but a
    /// process that arrives just when the lock is free overtakes them, and so checks ``isWaitedFor`` first.
    func waitForLock() -> Int {
        calls.world.setWaiting(true, descriptor)
        defer { calls.world.setWaiting(false, descriptor) }
        return calls.waitForLock(descriptor)
    }

    /// Whether others wait for the lock. Always false on Apple's systems, where it cannot be determined.
    var isWaitedFor: Bool { calls.world.isWaitedFor(descriptor) }

    /// Explicit, because closing is not enough if a forked child has inherited the descriptor.
    func unlock() { calls.unlock(descriptor) }

    /// Whether the file has not been replaced by another one, which others would lock instead.
    var isInPlace: Bool {
        get throws(LockboxError) {
            var current = stat()
            let result = calls.stat(Self.name, at: directory.descriptor, &current)
            if result == -Int(ENOENT) { return false }
            try check(result, "stat", path)
            return FileIdentity(current) == identity
        }
    }

    // MARK: The change count

    func count() throws(LockboxError) -> UInt64 { try Self.count(in: descriptor, directory) }

    private static func count(in file: CInt, _ directory: Directory) throws(LockboxError) -> UInt64 {
        var count: UInt64 = 0
        let result = withUnsafeMutableBytes(of: &count) { directory.calls.read(file, into: $0, at: 0) }
        try check(result, "read", directory.filePath(name))
        return UInt64(littleEndian: count)
    }

    func setCount(_ count: UInt64) throws(LockboxError) {
        let result = withUnsafeBytes(of: count.littleEndian) { calls.write(descriptor, $0, at: 0) }
        try check(result, "write", path)
    }

    /// Returns a folder's change count, or 0 if its lock has never been taken.
    static func count(of directory: Directory) throws(LockboxError) -> UInt64 {
        guard let descriptor = try directory.open(name) else { return 0 }
        defer { directory.calls.close(descriptor) }
        return try count(in: descriptor, directory)
    }

    // MARK: Readers

    /// Whether the file can be a lock, or there is none: another program's may have its name.
    static func isOneOrAbsent(in directory: Directory) throws(LockboxError) -> Bool {
        guard let descriptor = try directory.open(name) else { return true }
        defer { directory.calls.close(descriptor) }
        return [0, 8].contains(try directory.checkedStatus(of: descriptor, name).st_size)
    }

    /// Calls `body` while no writer holds the lock, which stays as it is. Returns nil, without calling it, if one does.
    static func withoutWriters<Result>(in directory: Directory, _ body: () throws -> Result) throws -> Result?
    {
        let calls = directory.calls
        guard let descriptor = try directory.open(name) else { return nil }
        defer { calls.close(descriptor) }
        guard calls.lock(descriptor, isShared: true) >= 0 else { return nil }
        defer { calls.unlock(descriptor) }  // a forked child may have it too
        return try body()
    }
}

/// The threads of this process that wait for a folder's lock, in order of arrival. Only the first one waits for
/// other processes, which the kernel serves in order of arrival too.
final class LockQueue: Sendable {
    private let state = Protected(State())

    private struct State {
        var isHeld = false
        var waiting: [Awaited<Void>] = []
        /// The change count when this process last released the lock while other processes waited for it.
        var givingWayAfter: UInt64?
        /// Until then, no other process is given way to: the last one did not take the lock, and may have been
        /// stopped.
        var givesWayAgainAt: Duration?
        /// The request of the last thread that timed out.
        var request: LockRequest?
    }

    /// Waits for the lock, with a time limit because its holder may have been stopped.
    ///
    /// - Parameter timeout: The time to wait for the same holder.
    /// - Throws: `lockTimeout` after that time.
    func acquire(_ directory: Directory, timeout: Duration) throws(LockboxError) -> DirectoryLock {
        var patience = Patience(directory, timeout)
        try enter(&patience)
        do {
            while true {
                var file = try LockFile(directory)
                try giveWay(file)
                if try !file.lock() { file = try waitInLine(file, directory, patience: &patience) }
                if try file.isInPlace { return DirectoryLock(file, self) }
            }
        } catch {
            leave()
            throw error
        }
    }

    /// Lets the next thread proceed.
    ///
    /// - Parameter count: The folder's change count, if other processes wait for the lock.
    func leave(givingWayAfter count: UInt64? = nil) {
        let next = state.withLock { state -> Awaited<Void>? in
            state.givingWayAfter = count
            state.isHeld = !state.waiting.isEmpty
            return state.isHeld ? state.waiting.removeFirst() : nil
        }
        next?.set(())
    }

    private func enter(_ patience: inout Patience) throws(LockboxError) {
        let waiter = state.withLock { state -> Awaited<Void>? in
            defer { state.isHeld = true }
            if !state.isHeld { return nil }
            let waiter = Awaited<Void>()
            state.waiting.append(waiter)
            return waiter
        }
        guard let waiter else { return }
        while waiter.wait(patience.interval) == nil {
            if patience.isOver, giveUp(waiter) { throw patience.error }
        }
    }

    /// Returns false if it is the next already.
    private func giveUp(_ waiter: Awaited<Void>) -> Bool {
        state.withLock { state in
            let count = state.waiting.count
            state.waiting.removeAll { $0 === waiter }
            return state.waiting.count < count
        }
    }

    /// Returns the file that is locked then: that of an earlier request, if one still waits.
    private func waitInLine(_ file: LockFile, _ directory: Directory, patience: inout Patience)
        throws(LockboxError)
        -> LockFile
    {
        let request = if let resumed = resumedRequest() { resumed } else { try LockRequest(file) }
        while true {
            if let result = request.wait(patience.interval) {
                try check(result, "flock", directory.filePath(LockFile.name))
                return request.file
            }
            // Keeps one waiting request at most: the next thread resumes it.
            if patience.isOver, request.abandon() {
                state.withLock { $0.request = request }
                throw patience.error
            }
        }
    }

    /// Lets another process take the lock that this one held last. Waking up takes that process a moment, so
    /// without this it would lose the race every time.
    private func giveWay(_ file: LockFile) throws(LockboxError) {
        let (count, notBefore) = state.withLock { state in
            defer { state.givingWayAfter = nil }
            return (state.givingWayAfter, state.givesWayAgainAt)
        }
        let start = world.uptime
        guard let count, notBefore.map({ $0 <= start }) ?? true else { return }
        while try file.count() == count {
            if world.uptime - start > .milliseconds(2) {
                return state.withLock { $0.givesWayAgainAt = start + .milliseconds(100) }
            }
            world.sleep(.microseconds(20))
        }
    }

    private func resumedRequest() -> LockRequest? {
        let request = state.withLock { state in
            defer { state.request = nil }
            return state.request
        }
        return request.flatMap { $0.resume() ? $0 : nil }
    }
}

/// A call of `flock`, which has no time limit, on a thread of its own so that the caller can time out.
final class LockRequest: Sendable {
    let file: LockFile
    private let caller = Awaited<Int>()
    private let state = Protected(State.waiting)

    private enum State { case waiting, abandoned, over }

    init(_ file: LockFile) throws(LockboxError) {
        self.file = file
        try detachThread { self.run() }
    }

    private func run() {
        let result = file.waitForLock()
        let isWanted = state.withLock { state in
            defer { state = .over }
            return state == .waiting
        }
        if isWanted { caller.set(result) } else { file.unlock() }
    }

    /// Returns the result of `flock`, or nil on a timeout.
    func wait(_ time: Duration) -> Int? { caller.wait(time) }

    /// Returns false if the lock has already been taken.
    func abandon() -> Bool { move(from: .waiting, to: .abandoned) }

    /// Returns false if the lock has been taken and released again.
    func resume() -> Bool { move(from: .abandoned, to: .waiting) }

    private func move(from old: State, to new: State) -> Bool {
        state.withLock { state in
            guard state == old else { return false }
            state = new
            return true
        }
    }
}

/// The time limit of a wait for a folder's lock. It starts again with each new holder, and whenever the holder shows that it
/// makes progress.
struct Patience {
    private let directory: Directory
    private let limit: Duration
    private var count: UInt64?
    private var since = world.uptime

    init(_ directory: Directory, _ limit: Duration) {
        self.directory = directory
        self.limit = limit
    }

    /// How long to wait between checks of the time limit.
    var interval: Duration { max(.milliseconds(1), min(.milliseconds(250), limit / 8)) }

    /// Whether the same holder has held the lock for the whole time limit, and shown no progress, or the caller has stopped
    /// waiting.
    var isOver: Bool {
        mutating get {
            if BlockingCall.isUnwanted { return true }
            let now = world.uptime
            let current = try? LockFile.count(of: directory)
            if current != count {
                count = current
                since = now
            }
            return now - since >= limit
        }
    }

    var error: LockboxError {
        .lockTimeout(location: directory.filePath(LockFile.name))
    }
}
