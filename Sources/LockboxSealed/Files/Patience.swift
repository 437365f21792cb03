import LockboxCore
import LockboxPlatform

/// How long a folder's lock is waited for: a time for each of its holders.
struct Patience {
    private let directory: Directory
    private let limit: Duration
    private var count: UInt64?
    private var since = ContinuousClock.now

    init(_ directory: Directory, _ limit: Duration) {
        self.directory = directory
        self.limit = limit
    }

    /// How long to wait before asking whether it is over.
    var interval: Duration { max(.milliseconds(1), min(.seconds(1), limit / 8)) }

    /// Whether one and the same holder has had the lock for all that time.
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
        .storageFailure(operation: "flock", path: directory.filePath(LockFile.name), errno: EWOULDBLOCK)
    }
}
