import LockboxCore
import LockboxFiles
import LockboxPlatform

/// The threads of this process that wait for a folder's lock, in order of arrival. Only the first one waits for
/// other processes, which the kernel serves in order of arrival too.
final class LockQueue: Sendable {
    private let state = Protected(State())

    private struct State {
        var isHeld = false
        var waiting: [Waiter] = []
        /// The change count when this process last released the lock while other processes waited for it.
        var givingWayAfter: UInt64?
        /// Until then, no other process is given way to: the last one did not take the lock, and may have been
        /// stopped.
        var givesWayAgainAt: ContinuousClock.Instant?
        /// The request of the last thread that timed out.
        var request: LockRequest?
    }

    /// Waits for the lock, with a time limit because its holder may have been stopped.
    ///
    /// - Parameter timeout: The time to wait for the same holder.
    /// - Throws: `lockTimeout` after that time.
    func acquire(_ directory: Directory, timeout: Duration) throws(LockboxError) -> DirectoryLock {
        var patience = Patience(directory, timeout)
        try enter(&patience)
        do {
            while true {
                var file = try LockFile(directory)
                try giveWay(file)
                if try !file.lock() { file = try waitForLock(file, directory, &patience) }
                if file.isInPlace { return DirectoryLock(file, self) }
            }
        } catch {
            leave()
            throw error
        }
    }

    /// Lets the next thread proceed.
    ///
    /// - Parameter count: The folder's change count, if other processes wait for the lock.
    func leave(givingWayAfter count: UInt64? = nil) {
        let next = state.withLock { state -> Waiter? in
            state.givingWayAfter = count
            state.isHeld = !state.waiting.isEmpty
            return state.isHeld ? state.waiting.removeFirst() : nil
        }
        next?.resume(0)
    }

    private func enter(_ patience: inout Patience) throws(LockboxError) {
        let waiter = state.withLock { state -> Waiter? in
            defer { state.isHeld = true }
            if !state.isHeld { return nil }
            let waiter = Waiter()
            state.waiting.append(waiter)
            return waiter
        }
        guard let waiter else { return }
        while waiter.wait(patience.interval) == nil {
            if patience.isOver, giveUp(waiter) { throw patience.error }
        }
    }

    /// Returns false if it is the next already.
    private func giveUp(_ waiter: Waiter) -> Bool {
        state.withLock { state in
            let count = state.waiting.count
            state.waiting.removeAll { $0 === waiter }
            return state.waiting.count < count
        }
    }

    /// Returns the file that is locked then: that of an earlier request, if one still waits.
    private func waitForLock(_ file: LockFile, _ directory: Directory, _ patience: inout Patience)
        throws(LockboxError)
        -> LockFile
    {
        let request = if let resumed = resumedRequest() { resumed } else { try LockRequest(file) }
        while true {
            if let result = request.wait(patience.interval) {
                try check(result, "flock", directory.filePath(LockFile.name))
                return request.file
            }
            // Keeps one waiting request at most: the next thread resumes it.
            if patience.isOver, request.abandon() {
                state.withLock { $0.request = request }
                throw patience.error
            }
        }
    }

    /// Lets another process take the lock that this one held last. Waking up takes that process a moment, so
    /// without this it would lose the race every time.
    private func giveWay(_ file: LockFile) throws(LockboxError) {
        let (count, notBefore) = state.withLock { state in
            defer { state.givingWayAfter = nil }
            return (state.givingWayAfter, state.givesWayAgainAt)
        }
        let start = ContinuousClock.now
        guard let count, notBefore.map({ $0 <= start }) ?? true else { return }
        while try file.count() == count {
            if ContinuousClock.now - start > .milliseconds(2) {
                return state.withLock { $0.givesWayAgainAt = start + .milliseconds(100) }
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
