import Lockbox
@_spi(Extensions) import LockboxCore
import LockboxPlatform
@_spi(Extensions) import LockboxStore

/// Plays a store's life on a ``SimulatedMachine``: processes with threads call what the interface has, while they are killed and
/// stopped, calls fail, and the power is cut. What the calls answered, and what is there afterwards, must have an explanation in which
/// each call took effect once, and nothing that was acknowledged is lost.
///
/// A seed decides everything. Swift's hashes differ from process to process, unless the environment has
/// `SWIFT_DETERMINISTIC_HASHING=1`: with it, a seed plays the same again.
package struct Simulation: Sendable {
    /// What is broken on purpose, to see whether it is noticed.
    package enum Defect: String, CaseIterable, Sendable {
        case noFileSynchronization, noFolderSynchronization, noLocks
    }

    package struct Violation: Error, CustomStringConvertible {
        package let simulation: Simulation
        package let reason: String
        package let history: [String]

        package var description: String {
            let call =
                "Simulation(seed: \(simulation.seed), days: \(simulation.days), leavingOut: \(simulation.leftOut.sorted()))"
            return "\(call): \(reason)\n\(history.joined(separator: "\n"))"
        }
    }

    package let seed: UInt64
    package var days: Int
    /// The numbers of calls that are not made.
    package var leftOut: Set<Int>
    package var defect: Defect?
    package var trace: (@Sendable (String) -> Void)?

    package init(seed: UInt64, days: Int = 3, leavingOut leftOut: Set<Int> = [], defect: Defect? = nil) {
        (self.seed, self.days, self.leftOut, self.defect) = (seed, days, leftOut, defect)
    }

    static let directory = "/home/store"
    static let prefixes = ["one", "two"]
    /// The keys: the number of a prefix, and a name.
    static let keys = [(0, "a"), (0, "b"), (1, "a"), (1, "c")]

    /// Plays some days of a store's life.
    ///
    /// - Returns: How much was done.
    /// - Throws: ``Violation``.
    @discardableResult
    package func run() throws -> SimulatedMachine.Counts {
        SimulatedSodium.install
        let machine = SimulatedMachine(seed: seed)
        machine.trace = trace
        machine.defect = defect
        var life = SimulatedLife(machine, leavingOut: leftOut)
        try life.begin()
        for _ in 0..<days {
            if let reason = life.playDay() {
                throw Violation(simulation: self, reason: reason, history: life.calls)
            }
        }
        return machine.counts
    }

    /// Returns a violation with as few calls as can be found.
    package func shrunk(_ violation: Violation) -> Violation {
        var smallest = violation
        func isSmaller(_ change: (inout Simulation) -> Void) -> Bool {
            var smaller = smallest.simulation
            change(&smaller)
            do { try smaller.run() } catch let violation as Violation {
                smallest = violation
                return true
            } catch {}
            return false
        }
        while smallest.simulation.days > 1, isSmaller({ $0.days -= 1 }) {}
        var size = 32
        while size > 0 {
            for start in stride(from: 0, to: 100 * smallest.simulation.days, by: size) {
                let calls = Set(start..<(start + size)).subtracting(smallest.simulation.leftOut)
                if !calls.isEmpty { _ = isSmaller { $0.leftOut.formUnion(calls) } }
            }
            size /= 2
        }
        return smallest
    }
}

/// A store's days. In each of them processes work, something happens, and afterwards another process looks at what is there.
struct SimulatedLife {
    private let machine: SimulatedMachine
    private let leftOut: Set<Int>
    private let knowledge = SimulatedKnowledge()
    private var processes = 0
    private var callCount = 0
    private var state = SimulatedHistory.State(repeating: nil, count: Simulation.keys.count + 1)
    /// Of the last day.
    private(set) var calls: [String] = []

    init(_ machine: SimulatedMachine, leavingOut leftOut: Set<Int>) {
        (self.machine, self.leftOut) = (machine, leftOut)
    }

    /// Makes the store.
    mutating func begin() throws {
        for key in Simulation.keys.indices {
            let value = "first\(key)"
            state[key] = "\(value)@\(SimulatedHistory.defaultClass)"
            try alone { try $0.write(key, value) }.get()
        }
    }

    /// Returns why what happened is impossible, or nil.
    mutating func playDay() -> String? {
        let recorder = SimulatedRecorder(machine, knowledge, leavingOut: leftOut)
        machine.chances = machine.random.chances()
        let plan = SimulatedPlan(&machine.random)
        var running: [SimulatedProcess] = []
        for _ in 0...machine.random.below(2) {
            processes += 1
            let process = SimulatedProcess(machine, processes)
            running.append(process)
            let client = SimulatedClient.Shared(knowledge)
            for thread in 0...machine.random.below(2) {
                begin(process, "\(processes).\(thread)", client, plan, recorder)
            }
        }
        let cuts = machine.counts.cuts
        machine.run()
        for process in running { process.die() }
        machine.files.settle()
        calls = recorder.history.calls.map(\.description)
        machine.trace?(calls.joined(separator: "\n"))
        if let reason = recorder.unexpected { return reason }
        let isDamaged = machine.counts.failures > 0
        switch alone({ try $0.look(isDamaged: isDamaged) }) {
        case .failure(let error): return "nothing opens afterwards: \(error)"
        case .success(let end):
            defer { state = end }
            return recorder.history.contradiction(
                from: state,
                to: end,
                prefixes: Simulation.keys.map(\.0),
                isAfterCut: machine.counts.cuts > cuts,
                isDamaged: isDamaged
            )
        }
    }

    /// Runs `body` in a process of its own in which nothing happens.
    private mutating func alone<Value: Sendable>(
        _ body: @escaping @Sendable (SimulatedClient) throws -> Value
    )
        -> Result<Value, any Error>
    {
        processes += 1
        machine.chances = SimulatedMachine.Chances()
        machine.chances.change = 0
        let (knowledge, result) = (knowledge, SimulatedBox<Result<Value, any Error>?>(nil))
        let process = SimulatedProcess(machine, processes)
        process.begin { result.value = Result { try body(SimulatedClient(knowledge)) } }
        machine.run()
        process.die()
        return result.value!
    }

    private mutating func begin(
        _ process: SimulatedProcess,
        _ caller: String,
        _ client: SimulatedClient.Shared,
        _ plan: SimulatedPlan,
        _ recorder: SimulatedRecorder
    ) {
        let numbers = callCount..<(callCount + 2 + machine.random.below(6))
        callCount = numbers.upperBound
        let machine = machine
        process.begin {
            for number in numbers where !process.isDead {
                let operation = plan.operation(number, &machine.random)
                recorder.record(caller, number, operation, process) { try client.get().perform(operation) }
            }
        }
    }
}

extension SimulatedRandom {
    fileprivate mutating func chances() -> SimulatedMachine.Chances {
        var chances = SimulatedMachine.Chances()
        chances.change = [2_000, 10_000, 40_000][below(3)]
        switch below(6) {
        case 0: break
        case 1: chances.kill = 200
        case 2: chances.cut = 150
        case 3: chances.failure = 1_000
        case 4: chances.stop = 500
        default:
            (chances.kill, chances.cut, chances.stop, chances.clockStep) = (150, 150, 200, 500)
            chances.failure = happens(50_000) ? 500 : 0
        }
        return chances
    }
}

/// What the processes of a day are about. Few keys and few kinds of calls make them meet.
private struct SimulatedPlan: Sendable {
    private let keys: [Int]
    /// The calls that most are.
    private let favorites: Range<Int>
    /// Whether passcodes are removed that day, or set. Not both: the first passcode makes another owner of the store, which a process
    /// that knew the one before refuses as long as it lives.
    private let removesPasscodes: Bool

    init(_ random: inout SimulatedRandom) {
        keys = Array(Simulation.keys.indices.shuffled(using: &random).prefix(1 + random.below(4)))
        favorites = [0..<50, 0..<19, 19..<30, 26..<44, 44..<50][random.below(5)]
        removesPasscodes = random.happens(50_000)
    }

    func operation(_ number: Int, _ random: inout SimulatedRandom) -> SimulatedHistory.Operation {
        let (key, other) = (keys[random.below(keys.count)], keys[random.below(keys.count)])
        let (value, replacing, prefix) = ("v\(number)", random.happens(50_000), Simulation.keys[key].0)
        let range = random.happens(70_000) ? favorites : 0..<50
        switch range.lowerBound + random.below(range.count) {
        case 0..<5: return .write(key, value, class: nil)
        case 5..<9: return .write(key, value, class: ["ak", "ck", "dk"][random.below(3)])
        case 9..<12: return .add(key, value)
        case 12..<15: return .remove(key)
        case 15..<19: return .update(key, value)
        case 19..<26: return .move(key, other, replacing: replacing)
        case 26..<30: return .copy(key, other, replacing: replacing)
        case 30..<33: return .batch(writing: key, value, removing: other)
        case 33..<37: return .read(key)
        case 37..<39: return .readAll(prefix: prefix)
        case 39..<41: return .removeAll(prefix: prefix)
        case 41..<44: return .export(number)
        case 44: return .load
        case 45: return .lock
        case 46..<48:
            let isRemoval = removesPasscodes && random.happens(50_000)
            return .passcode(isRemoval ? nil : "quick \(number)", isFirstAllowed: !removesPasscodes)
        default: return .rotate
        }
    }
}

/// A value that the threads of a machine share.
final class SimulatedBox<Value>: @unchecked Sendable {
    // Unchecked: one of them runs at a time.
    var value: Value

    init(_ value: Value) { self.value = value }
}

/// What the owner of a store knows, whatever becomes of the machine.
final class SimulatedKnowledge: @unchecked Sendable {
    // Unchecked: one thread of a machine runs at a time.
    /// All that were ever asked for: one of them is the store's.
    var passcodes: [String] = []
    let backupKey = BackupKey()
    /// The last complete backup, and what is in it.
    var backup: (path: String, values: [Int: String])?
}

/// Notes the calls of a day and their answers.
final class SimulatedRecorder: @unchecked Sendable {
    // Unchecked: one thread of a machine runs at a time.
    private(set) var history = SimulatedHistory()
    /// An error that no call should meet.
    private(set) var unexpected: String?
    private let machine: SimulatedMachine
    private let leftOut: Set<Int>
    private var time = 0
    private let knowledge: SimulatedKnowledge

    init(_ machine: SimulatedMachine, _ knowledge: SimulatedKnowledge, leavingOut leftOut: Set<Int>) {
        (self.machine, self.knowledge, self.leftOut) = (machine, knowledge, leftOut)
    }

    func record(
        _ caller: String,
        _ number: Int,
        _ operation: SimulatedHistory.Operation,
        _ process: SimulatedProcess,
        _ body: () throws -> SimulatedHistory.Answer
    ) {
        if leftOut.contains(number) { return }
        machine.noteOperation()
        time += 1
        let index = history.calls.count
        let loaded = operation == .load ? knowledge.backup?.values ?? [:] : [:]
        history.calls.append(
            .init(caller: caller, number: number, operation: operation, loaded: loaded, begin: time)
        )
        let failures = machine.counts.failures
        do {
            let answer = try body()
            if process.isDead { return }
            time += 1
            (history.calls[index].end, history.calls[index].answer) = (time, answer)
        } catch {
            history.calls[index].failure = "\(error)"
            if process.isDead || machine.counts.failures > failures || isExpected(error) { return }
            unexpected = unexpected ?? "\(caller) \(operation): \(error)"
        }
    }

    private func isExpected(_ error: any Error) -> Bool {
        switch (error as? LockboxError)?.code {
        // Another process writes all the time, or has changed the passcode.
        case .conflict: true
        // Another process was stopped.
        case .lockTimeout: machine.counts.stops > 0
        // A rotation could not read it, because the disk failed.
        case .corrupt: machine.counts.failures > 0
        default: false
        }
    }
}
