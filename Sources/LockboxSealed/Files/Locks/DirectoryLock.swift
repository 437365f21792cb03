import LockboxCore

/// A folder's exclusive lock, while it is held.
final class DirectoryLock: Sendable {
    private let file: LockFile
    private let queue: LockQueue?
    private let state = Protected(State())

    private struct State {
        var isHeld = true
        /// Nil until it has been read.
        var count: UInt64?
        var hasRenamed = false
    }

    /// - Parameters:
    ///   - file: The lock file, already locked.
    ///   - queue: Notified when the lock is released.
    init(_ file: LockFile, _ queue: LockQueue?) {
        self.file = file
        self.queue = queue
    }

    /// Takes the lock without waiting. Returns nil if another process holds it.
    static func attempt(_ directory: Directory) throws(LockboxError) -> DirectoryLock? {
        let file = try LockFile(directory)
        guard try file.lock(), file.isInPlace else { return nil }
        return DirectoryLock(file, nil)
    }

    deinit { release() }

    /// Whether others wait for this lock, and not for that of a file in its place.
    var isInPlace: Bool { file.isInPlace }

    /// Whether nobody has had it before, or only somebody who was killed.
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
        queue?.leave(givingWayAfter: isWaitedFor ? self.state.withLock(\.count) : nil)
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
