import Foundation

@testable import LockboxCore
@testable import LockboxStore

extension SystemCalls {
    /// Runs `body` before each of these calls, until it returns true.
    static func before(_ call: Call, _ body: @escaping @Sendable () -> Bool) -> SystemCalls {
        let isDone = Protected(false)
        return SystemCalls {
            if $0 == call, !isDone.withLock({ $0 }), body() { isDone.withLock { $0 = true } }
            return nil
        }
    }

    /// From this call on nothing works any more, as for a process that is killed there.
    static func failing(from call: Int) -> SystemCalls {
        let count = Protected(0)
        return SystemCalls { _ in
            count.withLock {
                $0 += 1
                return $0 >= call ? .failure(EIO) : nil
            }
        }
    }
}
