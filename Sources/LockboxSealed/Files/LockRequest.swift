import Dispatch
import LockboxCore
import LockboxPlatform

/// A wait for `flock`, which knows no time limit: on a thread of its own, which can be left behind.
final class LockRequest: Sendable {
    let file: LockFile
    private let turn = Turn()
    private let state = Protected(State.waiting)

    private enum State { case waiting, abandoned, over }

    init(_ file: LockFile) throws {
        self.file = file
        try detachThread { self.run() }
    }

    private func run() {
        let result = file.waitForLock()
        let isWanted = state.withLock { state in
            defer { state = .over }
            return state == .waiting
        }
        if isWanted { turn.come(result) } else { file.unlock() }
    }

    /// What `flock` returned; nil if it has not within that time.
    func wait(_ time: Duration) -> Int? { turn.wait(time) }

    /// False if the lock has come by now.
    func abandon() -> Bool { move(from: .waiting, to: .abandoned) }

    /// False if the lock has come by now, and gone.
    func resume() -> Bool { move(from: .abandoned, to: .waiting) }

    private func move(from old: State, to new: State) -> Bool {
        state.withLock { state in
            guard state == old else { return false }
            state = new
            return true
        }
    }
}

/// What a thread waits for.
final class Turn: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    /// Behind a lock for ThreadSanitizer, too, which does not see the semaphore.
    private let result = Protected<Int?>(nil)

    func come(_ result: Int) {
        self.result.withLock { $0 = result }
        semaphore.signal()
    }

    /// Nil if it does not come within that time.
    func wait(_ time: Duration) -> Int? {
        _ = semaphore.wait(timeout: .now() + time / .seconds(1))
        return result.withLock { $0 }
    }
}
