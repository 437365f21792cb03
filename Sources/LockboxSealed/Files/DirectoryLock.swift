import LockboxCore

/// The exclusive lock of a folder, held.
final class DirectoryLock: Sendable {
    private let file: LockFile
    private let queue: LockQueue?
    private let state = Protected(State())

    private struct State {
        var isHeld = true
        /// Nil before it has been read.
        var count: UInt64?
        var hasRenamed = false
    }

    /// - Parameters:
    ///   - file: Locked.
    ///   - queue: Told when the lock is let go of.
    init(_ file: LockFile, _ queue: LockQueue?) {
        self.file = file
        self.queue = queue
    }

    /// The lock, or nil if another holds it. Does not wait.
    static func attempt(_ directory: Directory) throws -> DirectoryLock? {
        let file = try LockFile(directory)
        guard try file.lock(), file.isInPlace else { return nil }
        return DirectoryLock(file, nil)
    }

    deinit { release() }

    /// Lets go of it.
    func release() {
        let state = state.withLock { state in
            defer { state.isHeld = false }
            return state
        }
        guard state.isHeld else { return }
        // So that those who wait see that there is another holder. If it fails, they may give up too early, no more.
        if !state.hasRenamed { try? advanceCount { ($0 | 1) &+ 1 } }
        let isWaitedFor = file.isWaitedFor
        file.unlock()
        queue?.leave(givingWayAfter: isWaitedFor ? self.state.withLock(\.count) : nil)
    }

    /// Runs `body`, which renames one file into the folder. Some file systems hide a file's name while it is replaced: btrfs
    /// from who is reading the folder, FUSE also from who looks it up.
    func renaming<Result>(_ body: () throws -> Result) throws -> Result {
        // It is odd already if a holder was killed in between.
        try advanceCount { $0.isMultiple(of: 2) ? $0 &+ 1 : $0 &+ 2 }
        state.withLock { $0.hasRenamed = true }
        defer { try? advanceCount { $0 &+ 1 } }
        return try body()
    }

    private func advanceCount(_ next: (UInt64) -> UInt64) throws {
        let count = next(try state.withLock(\.count) ?? file.count())
        try file.setCount(count)
        state.withLock { $0.count = count }
    }
}
