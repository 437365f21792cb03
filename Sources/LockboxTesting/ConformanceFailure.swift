import Dispatch
import LockboxCore
import LockboxPlatform

/// A requirement that a backend or a storage does not meet.
public struct ConformanceFailure: Error, Hashable, CustomStringConvertible {
    /// What is required, in a few words.
    public let requirement: String

    /// What was found instead.
    public let finding: String

    /// Both, in a sentence.
    public var description: String { "It does not conform: \(requirement): \(finding)" }
}

/// Runs a check on a thread of its own. One that does not return is left behind, so that a deadlock fails one test and
/// not all of them.
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
            finding: "a call has not returned after \(limit): it waits for another one, or for itself"
        )
    }
    try result.withLock { $0 }?.get()
}
