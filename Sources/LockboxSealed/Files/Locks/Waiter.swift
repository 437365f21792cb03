import Dispatch
import LockboxCore
import LockboxPlatform

/// A thread that waits for a result.
final class Waiter: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    /// Protected by a lock because ThreadSanitizer does not recognize the semaphore.
    private let result = Protected<Int?>(nil)

    func resume(_ result: Int) {
        self.result.withLock { $0 = result }
        semaphore.signal()
    }

    /// Returns nil on a timeout.
    func wait(_ time: Duration) -> Int? {
        _ = semaphore.wait(timeout: .now() + time / .seconds(1))
        return result.withLock { $0 }
    }
}
