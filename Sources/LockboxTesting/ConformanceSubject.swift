import Dispatch
@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// The subject of a check, with helpers for both suites.
protocol ConformanceSubject: Sendable {
    var requirement: String { get }

    /// How long the check waits for what should happen at once.
    var patience: Duration { get }
}

extension ConformanceSubject {
    func failure(_ finding: String) -> ConformanceFailure {
        ConformanceFailure(requirement: requirement, finding: finding)
    }

    func expect(_ condition: @autoclosure () throws -> Bool, _ finding: @autoclosure () -> String) throws {
        guard try condition() else { throw failure(finding()) }
    }

    /// Expects that a call throws an error.
    ///
    /// - Parameters:
    ///   - expected: The error in a few words.
    ///   - isExpected: Whether it is the error.
    func expectError(
        _ expected: String,
        from call: String,
        where isExpected: (LockboxError?) -> Bool,
        _ body: () throws -> Void
    ) throws {
        do { try body() } catch {
            return try expect(
                isExpected(error as? LockboxError),
                "\(call) threw \(error) instead of \(expected)"
            )
        }
        throw failure("\(call) did not throw \(expected)")
    }

    func expectError(_ expected: LockboxError, from call: String, _ body: () throws -> Void) throws {
        try expectError("\(expected)", from: call, where: { $0 == expected }, body)
    }

    /// Expects an error with one of these codes.
    func expectError(_ codes: LockboxError.Code..., from call: String, _ body: () throws -> Void) throws {
        let expected = codes.map { ".\($0)" }.joined(separator: " or ")
        try expectError(expected, from: call, where: { $0.map { codes.contains($0.code) } ?? false }, body)
    }

    /// Expects that a call rethrows what its closure throws.
    func expectRethrow(from call: String, _ body: (_ refuse: () throws -> Void) throws -> Void) throws {
        do { try body { throw Refusal() } } catch is Refusal { return }
        throw failure("\(call) did not rethrow the error of its closure")
    }

    /// Makes a call while a closure of another one runs: from another thread, and if it returns, from this one. If the closure runs
    /// under a lock, the other thread waits for it. On this thread, a `Mutex` would end the process.
    func reenter(_ call: String, _ body: @escaping @Sendable () throws -> Void) throws {
        try expectReturn(
            "\(call) did not return within \(patience); a lock is held while the closure runs",
            body
        )
        try body()
    }

    /// Expects that a call on another thread returns.
    func expectReturn(_ finding: String, _ body: @escaping @Sendable () throws -> Void) throws {
        guard try returns(within: patience, body) else { throw failure(finding) }
    }

    // MARK: Reports of changes

    func wait(_ finding: @autoclosure () -> String, until isDone: () -> Bool) throws {
        let deadline = ContinuousClock.now + patience
        while !isDone(), ContinuousClock.now < deadline { usleep(1000) }
        try expect(isDone(), finding())
    }

    /// - Parameter count: How many changes have been reported so far.
    func expectNoReport(_ count: () -> Int, of change: () throws -> Void) throws {
        // One that began before may still be on its way.
        usleep(100_000)
        let before = count()
        try change()
        usleep(100_000)
        try expect(count() == before, "a change was reported after the subscription had ended")
    }

    /// - Parameters:
    ///   - subscribe: Begins a subscription that calls a closure for each report. Returns nil if the subject cannot tell.
    ///   - change: Makes a change that is reported.
    func checkEndFromWithin(
        _ subscribe: (_ report: @escaping @Sendable () -> Void) throws -> (@Sendable () -> Void)?,
        _ change: () throws -> Void
    ) throws {
        let cancel = Protected<(@Sendable () -> Void)?>(nil)
        let ends = Protected<(count: Int, last: Result<Void, any Error>?)>((0, nil))
        let subscription = try subscribe {
            guard let cancel = cancel.withLock({ $0 }) else { return }
            let end = Result {
                try reenter("the closure that ends a subscription, called during a report,", cancel)
            }
            ends.withLock { $0 = ($0.count + 1, end) }
        }
        guard let subscription else { return }
        cancel.withLock { $0 = subscription }
        try change()
        try wait("a change was not reported") { ends.withLock { $0.count > 0 } }
        try ends.withLock { $0.last }?.get()
        try expectNoReport({ ends.withLock { $0.count } }, of: change)
    }
}

/// Runs `body` on several threads at once. Rethrows the first error of one.
func concurrently(_ threads: Int, _ body: @escaping @Sendable (_ thread: Int) throws -> Void) throws {
    let error = Protected<(any Error)?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    for thread in 0..<threads {
        // Explicit threads, because a queue may run its work items one after the other.
        try detachThread {
            do { try body(thread) } catch let failure { error.withLock { $0 = $0 ?? failure } }
            isDone.signal()
        }
    }
    for _ in 0..<threads { isDone.wait() }
    if let error = error.withLock({ $0 }) { throw error }
}

private struct Refusal: Error {}

/// Runs a check on a thread of its own, so that a deadlock fails only one test.
func check(_ requirement: String, within limit: Duration, _ body: @escaping @Sendable () throws -> Void)
    throws
{
    let isDone: Bool
    do { isDone = try returns(within: limit, body) } catch let failure as ConformanceFailure {
        throw failure
    } catch {
        throw ConformanceFailure(requirement: requirement, finding: "a call threw \(error)")
    }
    if isDone { return }
    throw ConformanceFailure(
        requirement: requirement,
        finding: "a call did not return within \(limit); it may be deadlocked"
    )
}

/// Runs `body` on another thread. If it does not return in time, the thread is abandoned.
private func returns(within limit: Duration, _ body: @escaping @Sendable () throws -> Void) throws -> Bool {
    let result = Protected<Result<Void, any Error>?>(nil)
    let isDone = DispatchSemaphore(value: 0)
    try detachThread {
        let outcome = Result { try body() }
        result.withLock { $0 = outcome }
        isDone.signal()
    }
    guard isDone.wait(timeout: .now() + limit / .seconds(1)) == .success else { return false }
    try result.withLock { $0 }?.get()
    return true
}

/// A value in a finding.
func text(_ value: Any?) -> String { value.map { "\($0)" } ?? "nil" }

/// A requirement that a backend or a storage does not meet.
public struct ConformanceFailure: Error, Hashable, CustomStringConvertible {
    /// The requirement in a few words.
    public let requirement: String

    /// The observed behavior.
    public let finding: String

    /// The requirement and the observed behavior.
    public var description: String { "Requirement not met: \(requirement): \(finding)" }
}

extension FailingBackend: Undescribed {
    /// The type's name and the type of the wrapped backend. Does not show any items.
    package var summary: String { "FailingBackend(\(type(of: wrapped)))" }
}

extension BackendConformance: Undescribed {}

extension StorageConformance: Undescribed {}
