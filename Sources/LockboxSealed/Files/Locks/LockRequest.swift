import Dispatch
import LockboxCore
import LockboxPlatform

/// A call of `flock`, which has no time limit, on a thread of its own so that the caller can time out.
final class LockRequest: Sendable {
    let file: LockFile
    private let caller = Waiter()
    private let state = Protected(State.waiting)

    private enum State { case waiting, abandoned, over }

    init(_ file: LockFile) throws(LockboxError) {
        self.file = file
        try detachThread { self.run() }
    }

    private func run() {
        let result = file.waitForLock()
        let isWanted = state.withLock { state in
            defer { state = .over }
            return state == .waiting
        }
        if isWanted { caller.resume(result) } else { file.unlock() }
    }

    /// Returns the result of `flock`, or nil on a timeout.
    func wait(_ time: Duration) -> Int? { caller.wait(time) }

    /// Returns false if the lock has already been taken.
    func abandon() -> Bool { move(from: .waiting, to: .abandoned) }

    /// Returns false if the lock has been taken and released again.
    func resume() -> Bool { move(from: .abandoned, to: .waiting) }

    private func move(from old: State, to new: State) -> Bool {
        state.withLock { state in
            guard state == old else { return false }
            state = new
            return true
        }
    }
}
