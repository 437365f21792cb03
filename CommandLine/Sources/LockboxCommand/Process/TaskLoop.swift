import Dispatch
@_spi(Extensions) import Lockbox

/// Runs a task on the thread that waits for it. So it needs no other one, which the system may refuse.
final class TaskLoop: TaskExecutor {
    private let jobs = Guarded<[UnownedJob]>([])
    private let isThere = DispatchSemaphore(value: 0)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        isThere.signal()
    }

    /// Returns what `body` returns.
    static func run<Success: Sendable>(_ body: @escaping @Sendable () async throws -> Success) throws
        -> Success
    {
        let loop = TaskLoop()
        let end = Guarded<Result<Success, any Error>?>(nil)
        Task(executorPreference: loop) {
            let result: Result<Success, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            end.withLock { $0 = result }
        }
        while true {
            if let result = end.withLock({ $0 }) { return try result.get() }
            loop.isThere.wait()
            loop.jobs.withLock { $0.removeFirst() }.runSynchronously(on: loop.asUnownedTaskExecutor())
        }
    }
}
