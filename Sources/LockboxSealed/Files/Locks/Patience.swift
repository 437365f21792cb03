import LockboxCore
import LockboxPlatform

/// The time limit of a wait for a folder's lock. It starts again with each new holder, and whenever the holder shows that it
/// makes progress.
struct Patience {
    private let directory: Directory
    private let limit: Duration
    private var count: UInt64?
    private var since = ContinuousClock.now

    init(_ directory: Directory, _ limit: Duration) {
        self.directory = directory
        self.limit = limit
    }

    /// How long to wait between checks of the time limit.
    var interval: Duration { max(.milliseconds(1), min(.seconds(1), limit / 8)) }

    /// Whether the same holder has held the lock for the whole time limit, and shown no progress.
    var isOver: Bool {
        mutating get {
            let now = ContinuousClock.now
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
