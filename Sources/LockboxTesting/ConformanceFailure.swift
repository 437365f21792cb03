import Dispatch
import LockboxCore
import LockboxPlatform

/// A requirement that a backend or a storage does not meet.
public struct ConformanceFailure: Error, Hashable, CustomStringConvertible {
    /// The requirement in a few words.
    public let requirement: String

    /// The observed behavior.
    public let finding: String

    /// The requirement and the observed behavior.
    public var description: String { "Requirement not met: \(requirement): \(finding)" }
}

/// Runs a check on a thread of its own. If it does not return, the thread is abandoned, so that a deadlock
/// fails only one test.
func check(
    _ requirement: String,
    within limit: Duration,
    _ body: @escaping @Sendable () throws -> Void
) throws {
    let result = Protected<Result<Void, any Error>?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    try detachThread {
        let outcome = Result { try body() }
        result.withLock { $0 = outcome }
        isDone.signal()
    }
    guard isDone.wait(timeout: .now() + limit / .seconds(1)) == .success else {
        throw ConformanceFailure(
            requirement: requirement,
            finding: "a call did not return within \(limit); it may be deadlocked"
        )
    }
    try result.withLock { $0 }?.get()
}
