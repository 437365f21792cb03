import Dispatch

/// Runs blocking `work` (disk, network, Argon2id) on a thread outside the cooperative pool, and returns its
/// result. Canceling the task does not stop it.
package func offPool<Success: Sendable, Failure: Error>(
    _ work: @escaping @Sendable () throws(Failure) -> Success
) async throws(Failure) -> Success {
    let result: Result<Success, Failure> = await withCheckedContinuation { continuation in
        BlockingThreads.shared.run { continuation.resume(returning: Result(catching: work)) }
    }
    return try result.get()
}

/// Threads for work that blocks.
///
/// Not a concurrent `DispatchQueue`: on Linux its threads are those of the cooperative pool, as many as there are processors. Two
/// calls that wait for a lock would hold up every task of the program.
private final class BlockingThreads: Sendable {
    static let shared = BlockingThreads()

    typealias Work = @Sendable () -> Void

    /// More work than this at a time waits in line.
    private static let maximum = 256
    /// Idle threads beyond these end.
    private static let maximumIdle = 4

    private struct State {
        var waiting: [Work] = []
        var threads = 0
        /// Of these, the ones that wait for a signal which has not been given.
        var idle = 0
    }

    private let state = Protected(State())
    private let signal = DispatchSemaphore(value: 0)

    private enum Next {
        case wake, start, wait
    }

    /// Starts another thread at once if all are busy: each of them may be blocked for a long time.
    func run(_ work: @escaping Work) {
        let next: Next = state.withLock { state in
            state.waiting.append(work)
            if state.idle > 0 {
                state.idle -= 1
                return .wake
            }
            if state.threads == Self.maximum { return .wait }
            state.threads += 1
            return .start
        }
        switch next {
        case .wake: signal.signal()
        case .wait: break
        case .start: do { try detachThread { self.loop() } } catch { startFailed() }
        }
    }

    /// The system gives no more threads. Those that there are take the work; if there are none, this one does.
    private func startFailed() {
        let isLast = state.withLock { state in
            state.threads -= 1
            return state.threads == 0
        }
        while isLast, let work = state.withLock({ $0.waiting.popLast() }) { work() }
    }

    private func loop() {
        while true {
            switch state.withLock(Self.take) {
            case .work(let work): work()
            case .idle: signal.wait()
            case .end: return
            }
        }
    }

    private enum Turn {
        case work(Work), idle, end
    }

    private static func take(_ state: inout State) -> Turn {
        if !state.waiting.isEmpty { return .work(state.waiting.removeFirst()) }
        if state.idle < maximumIdle {
            state.idle += 1
            return .idle
        }
        state.threads -= 1
        return .end
    }
}
