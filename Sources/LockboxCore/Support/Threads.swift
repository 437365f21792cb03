import Dispatch
import LockboxPlatform

/// Runs blocking `work` (disk, network, Argon2id) on a thread outside the cooperative pool, and returns its
/// result. Canceling the task ends a wait for a lock, and stops nothing else.
///
/// - Parameters:
///   - reading: Whether it waits for no other call, and so shares no threads with those that may.
///   - isCancelable: Whether canceling the task ends a wait for a lock.
/// - Throws: What `work` throws; ``LockboxError/storageFailure(operation:path:errno:explanation:)`` if the system gives no thread.
package func offPool<Success: Sendable>(
    reading: Bool = false,
    isCancelable: Bool = true,
    _ work: @escaping @Sendable () throws -> Success
) async throws -> Success {
    if world.givesEachTaskAThread { return try work() }
    let isCanceled = Protected(false)
    let result: Result<Success, any Error> = await withTaskCancellationHandler {
        await withCheckedContinuation { continuation in
            runBlocking(reading: reading) { refusal in
                let result = BlockingCall.$isCanceled.withValue(isCanceled) {
                    Result {
                        if let refusal { throw refusal }
                        return try work()
                    }
                }
                continuation.resume(returning: result)
            }
        }
    } onCancel: {
        if isCancelable { isCanceled.withLock { $0 = true } }
    }
    if case .failure(let error) = result, (error as? LockboxError)?.code == .lockTimeout,
        isCanceled.withLock({ $0 })
    {
        throw CancellationError()
    }
    return try result.get()
}

/// The call that runs on this thread for an `async` one.
package enum BlockingCall {
    @TaskLocal fileprivate static var isCanceled: Protected<Bool>?

    /// Whether the task that waits for it has been canceled.
    package static var isUnwanted: Bool { isCanceled?.withLock { $0 } ?? false }
}

/// Threads for work that blocks.
final class BlockingThreads: Sendable {
    static let shared = BlockingThreads()
    /// Reads wait for no other call, so none may stand before them.
    static let reading = BlockingThreads()

    /// Gets the reason if it cannot run.
    typealias Work = @Sendable (LockboxError?) -> Void

    /// More work than this at a time waits in line. Work that waits holds no lock, so what runs never waits for it.
    private static let maximum = 256
    /// Idle threads beyond these end.
    private static let maximumIdle = 16

    private struct State {
        var waiting: [Work] = []
        var threads = 0
        /// The threads that wait for a signal which has not been given.
        var idle = 0
        /// Whether a thread has been woken or started, and has not looked for work yet.
        var isComing = false
    }

    private enum Help {
        case wake, start
    }

    private let state = Protected(State())
    private let signal = DispatchSemaphore(value: 0)

    func run(_ work: @escaping Work) {
        let help = state.withLock { state in
            state.waiting.append(work)
            return Self.help(&state)
        }
        call(help)
    }

    /// Another thread for work that waits, at once: those that there are may be blocked for a long time. Only one at a time,
    /// which calls the next: short work is often done before that.
    private static func help(_ state: inout State) -> Help? {
        if state.isComing || state.waiting.isEmpty { return nil }
        if state.idle > 0 {
            state.idle -= 1
            state.isComing = true
            return .wake
        }
        if state.threads == maximum { return nil }
        state.threads += 1
        state.isComing = true
        return .start
    }

    private func call(_ help: Help?) {
        switch help {
        case nil: break
        case .wake: signal.signal()
        case .start: do { try detachThread { self.loop() } } catch { startFailed(error) }
        }
    }

    /// The system gives no more threads. Those that there are take the work. If there are none, it would wait for ever.
    private func startFailed(_ error: LockboxError) {
        let refused = state.withLock { state -> [Work] in
            state.threads -= 1
            state.isComing = false
            guard state.threads == 0 else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for work in refused { work(error) }
    }

    private enum Turn {
        case work(Work, Help?)
        case idle, end
    }

    private func loop() {
        var comes = true
        while true {
            let turn = state.withLock { state in
                if comes { state.isComing = false }
                return Self.take(&state)
            }
            comes = false
            switch turn {
            case .work(let work, let help):
                call(help)
                work(nil)
            case .idle:
                signal.wait()
                comes = true
            case .end: return
            }
        }
    }

    private static func take(_ state: inout State) -> Turn {
        if !state.waiting.isEmpty {
            let work = state.waiting.removeFirst()
            return .work(work, help(&state))
        }
        if state.idle < maximumIdle {
            state.idle += 1
            return .idle
        }
        state.threads -= 1
        return .end
    }
}

/// Runs `body` on a thread of its own, which may block.
///
/// - Throws: ``LockboxError/storageFailure(operation:path:errno:explanation:)`` if the process cannot create another
///   thread.
@_spi(Extensions)
public func detachThread(_ body: @escaping @Sendable () -> Void) throws(LockboxError) {
    let result = world.detach(body)
    guard result == 0 else {
        throw LockboxError.storageFailure(operation: "pthread_create", path: "a thread", errno: result)
    }
}
