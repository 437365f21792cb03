import LockboxCore
import LockboxFiles
import LockboxPlatform

/// Who waits for a folder's lock: the threads of this process one behind the other, in the order of their coming. Only
/// the first of them waits for other processes, whom the kernel serves in that order, too.
final class LockQueue: Sendable {
    private let state = Protected(State())

    private struct State {
        var isTaken = false
        var waiting: [Turn] = []
        /// The change count at which this process last let go of the lock while others waited for it.
        var givingWayAfter: UInt64?
        /// Nobody is given way to before: who waited did not come, and may have been stopped.
        var noWayBefore: ContinuousClock.Instant?
        /// What the last one who gave up has left behind.
        var request: LockRequest?
    }

    /// Waits for the lock, but not for ever: its holder may be a process that was stopped.
    ///
    /// - Parameter timeout: For how long one and the same holder is waited for.
    /// - Throws: `storageFailure` of `flock` with `EWOULDBLOCK` after that time.
    func acquire(_ directory: Directory, timeout: Duration) throws -> DirectoryLock {
        var patience = Patience(directory, timeout)
        try enter(&patience)
        do {
            while true {
                let file = try lockedFile(directory, &patience)
                if file.isInPlace { return DirectoryLock(file, self) }
            }
        } catch {
            leave()
            throw error
        }
    }

    /// The next thread's turn.
    ///
    /// - Parameter count: The folder's change count, if other processes wait for the lock.
    func leave(givingWayAfter count: UInt64? = nil) {
        let next = state.withLock { state -> Turn? in
            state.givingWayAfter = count
            state.isTaken = !state.waiting.isEmpty
            return state.isTaken ? state.waiting.removeFirst() : nil
        }
        next?.come(0)
    }

    private func enter(_ patience: inout Patience) throws {
        let turn = state.withLock { state -> Turn? in
            defer { state.isTaken = true }
            if !state.isTaken { return nil }
            let turn = Turn()
            state.waiting.append(turn)
            return turn
        }
        guard let turn else { return }
        while turn.wait(patience.interval) == nil {
            if patience.isOver, leave(before: turn) { throw patience.error }
        }
    }

    /// False if the turn has come by now.
    private func leave(before turn: Turn) -> Bool {
        state.withLock { state in
            let count = state.waiting.count
            state.waiting.removeAll { $0 === turn }
            return state.waiting.count < count
        }
    }

    private func lockedFile(_ directory: Directory, _ patience: inout Patience) throws -> LockFile {
        let file = try LockFile(directory)
        try giveWay(file)
        if try file.lock() { return file }
        let request = try resumedRequest() ?? LockRequest(file)
        while true {
            if let result = request.wait(patience.interval) {
                try check(result, "flock", directory.filePath(LockFile.name))
                return request.file
            }
            // One thread that waits in vain is enough: who comes next takes it over.
            if patience.isOver, request.abandon() {
                state.withLock { $0.request = request }
                throw patience.error
            }
        }
    }

    /// Lets another process have the lock that this one had last. It takes a moment to wake up, and would come too late time
    /// after time.
    private func giveWay(_ file: LockFile) throws {
        let (count, notBefore) = state.withLock { state in
            defer { state.givingWayAfter = nil }
            return (state.givingWayAfter, state.noWayBefore)
        }
        let start = ContinuousClock.now
        guard let count, notBefore.map({ $0 <= start }) ?? true else { return }
        while try file.count() == count {
            if ContinuousClock.now - start > .milliseconds(2) {
                return state.withLock { $0.noWayBefore = start + .milliseconds(100) }
            }
            usleep(20)
        }
    }

    private func resumedRequest() -> LockRequest? {
        let request = state.withLock { state in
            defer { state.request = nil }
            return state.request
        }
        return request.flatMap { $0.resume() ? $0 : nil }
    }
}
