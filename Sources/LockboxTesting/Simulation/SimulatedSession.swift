import Lockbox
import LockboxCore
import LockboxPlatform

/// Gives out tokens that may be used once, and knows who has used which.
final class SimulatedIssuer: @unchecked Sendable {
    // Unchecked: one thread of a machine runs at a time.
    private struct Use {
        let process: SimulatedProcess
        let wasTold: Bool
        /// Whether its call could not store the new token.
        var isExcused = false
    }

    struct Refused: Error {}

    private var uses: [String: [Use]] = [:]
    private var ends: [String: Duration] = [:]
    private var troubles = 0
    /// Why what callers did is wrong.
    private(set) var fault: String?

    /// Forgets which tokens were used: calls that know nothing of sessions copy them.
    func beginDay(_ counts: SimulatedMachine.Counts) {
        uses = [:]
        troubles = counts.disruptions
    }

    func isFresh(_ token: String) -> Bool { ends[token].map { $0 > world.uptime } ?? false }

    /// Uses a token, and returns the new one.
    ///
    /// - Parameter wasTold: Whether the caller knows that it may have been used.
    func exchange(_ token: String, for new: String, of key: Int, wasTold: Bool) throws -> String {
        guard let process = world as? SimulatedProcess else { return new }
        if process.machine.random.happens(10_000) { throw Refused() }
        let time = Duration.microseconds(1 << process.machine.random.below(22))
        process.sleep(time / 2)
        if !process.isDead { use("\(key) \(token)", Use(process: process, wasTold: wasTold)) }
        process.sleep(time / 2)
        ends[new] = process.uptime + .milliseconds(3)
        return new
    }

    /// A holder that is killed, stopped or cannot reach the store explains that the next one is told, and uses the token again.
    private func use(_ token: String, _ use: Use) {
        let earlier = uses[token] ?? []
        uses[token, default: []].append(use)
        let counts = use.process.machine.counts
        if !use.wasTold, earlier.contains(where: { !$0.wasTold }) {
            fault = "\(token) was used twice, and no caller was told"
        }
        if counts.disruptions == troubles, earlier.contains(where: { !$0.process.isDead && !$0.isExcused }) {
            fault = "\(token) was used twice, and its first user lives"
        }
        if use.wasTold, counts.disruptions + counts.kills == 0 {
            fault = "\(token) is called used, and was not"
        }
    }

    func excuse(_ token: String, of key: Int) {
        for index in uses["\(key) \(token)", default: []].indices {
            uses["\(key) \(token)"]![index].isExcused = true
        }
    }
}

extension SimulatedMachine.Counts {
    /// What may keep a process that lives from giving signs of life.
    fileprivate var disruptions: Int { stops + failures + cuts }
}

/// Runs an async call on the thread that makes it: in a simulation, each task has a thread of its own.
final class SimulatedTask: TaskExecutor, @unchecked Sendable {
    // Unchecked: one thread of a machine runs at a time.
    private var jobs: [UnownedJob] = []

    func enqueue(_ job: consuming ExecutorJob) { jobs.append(UnownedJob(job)) }

    static func run<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
        let (executor, result) = (SimulatedTask(), SimulatedBox<Result<Value, any Error>?>(nil))
        Task(executorPreference: executor) {
            do { result.value = .success(try await body()) } catch { result.value = .failure(error) }
        }
        while result.value == nil {
            executor.jobs.removeFirst().runSynchronously(on: executor.asUnownedTaskExecutor())
        }
        return try result.value!.get()
    }
}
