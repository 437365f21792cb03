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
    private var callCount = 0
    private var state = SimulatedHistory.State(repeating: nil, count: Simulation.keys.count + 1)
    /// Of the last day.
    private(set) var calls: [String] = []

    init(_ machine: SimulatedMachine, leavingOut leftOut: Set<Int>) {
        (self.machine, self.leftOut) = (machine, leftOut)
    }

    /// Chooses files or a database for the store, and makes it there or not.
    mutating func begin() throws {
        if machine.random.happens(25_000) { knowledge.database = InMemoryStorage() }
        try alone { _ in _ = world.mkdir("/home", at: AT_FDCWD, mode: 0o700) }.get()
        machine.files.settle()
        // Otherwise the processes of the first day make it.
        guard machine.random.happens(70_000) else { return }
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
        knowledge.issuer.beginDay(machine.counts)
        let plan = SimulatedPlan(knowledge, &machine.random)
        // A process that has only the kernel's keys cannot tell a store whose last slot was removed from a forged one.
        knowledge.unlocksForAll = !plan.removesLastSlot
        if plan.removesLastSlot { machine.keys.removeAll() }
        let day = SimulatedDay(machine, knowledge, plan, recorder)
        for _ in 0...machine.random.below(3) {
            let threads = (0...machine.random.below(2)).map { _ in
                let numbers = callCount..<(callCount + 2 + machine.random.below(5))
                callCount = numbers.upperBound
                return numbers
            }
            day.beginProcess(threads)
        }
        let cuts = machine.counts.cuts
        let isOver = machine.run()
        day.end()
        machine.files.settle()
        calls = recorder.history.calls.map(\.description)
        machine.trace?(calls.joined(separator: "\n"))
        if !isOver { return "the calls do not end" }
        if let reason = recorder.unexpected ?? knowledge.issuer.fault { return reason }
        let isDamaged = machine.counts.failures > 0
        switch alone({ try $0.look(isDamaged: isDamaged) }) {
        case .failure(let error): return "nothing opens afterwards: \(error)"
        case .success(let end):
            defer { state = end }
            let reason = recorder.history.contradiction(
                from: state,
                to: end,
                prefixes: Simulation.keys.map(\.0),
                isAfterCut: machine.counts.cuts > cuts,
                isDamaged: isDamaged
            )
            guard reason == SimulatedHistory.tooMany else { return reason }
            machine.noteUndecidedDay()
            return nil
        }
    }

    /// Runs `body` in a process of its own in which nothing happens.
    private mutating func alone<Value: Sendable>(
        _ body: @escaping @Sendable (SimulatedClient) throws -> Value
    )
        -> Result<Value, any Error>
    {
        machine.chances = SimulatedMachine.Chances()
        machine.chances.change = 0
        let (knowledge, result) = (knowledge, SimulatedBox<Result<Value, any Error>?>(nil))
        let process = SimulatedProcess(machine, machine.nextProcess())
        process.begin { result.value = Result { try body(SimulatedClient(knowledge)) } }
        machine.run()
        process.die()
        return result.value!
    }
}

/// The processes of a day. One that was killed is followed by another one, which makes the calls that are left.
private final class SimulatedDay: @unchecked Sendable {
    // Unchecked: one thread of a machine runs at a time.
    private let machine: SimulatedMachine
    private let knowledge: SimulatedKnowledge
    private let plan: SimulatedPlan
    private let recorder: SimulatedRecorder
    private let cuts: Int
    private var processes: [SimulatedProcess] = []

    init(
        _ machine: SimulatedMachine,
        _ knowledge: SimulatedKnowledge,
        _ plan: SimulatedPlan,
        _ recorder: SimulatedRecorder
    ) {
        (self.machine, self.knowledge, self.plan, self.recorder) = (machine, knowledge, plan, recorder)
        cuts = machine.counts.cuts
    }

    /// - Parameter threads: The numbers of the calls of each.
    func beginProcess(_ threads: [Range<Int>]) {
        let process = SimulatedProcess(machine, machine.nextProcess())
        processes.append(process)
        let client = SimulatedClient.Shared(knowledge)
        for (thread, numbers) in threads.enumerated() {
            process.begin { [self] in
                var numbers = numbers
                while !process.isDead, let number = numbers.popFirst() {
                    // New secrets take from the machine's numbers.
                    var random = SimulatedRandom(seed: machine.random.next())
                    let operation = plan.operation(number, &random)
                    recorder.record("\(process.number).\(thread)", number, operation, process) { note in
                        try client.get().perform(operation, note: note)
                    }
                }
                if !numbers.isEmpty, machine.counts.cuts == cuts { beginProcess([numbers]) }
            }
        }
    }

    func end() {
        for process in processes { process.die() }
    }
}

extension SimulatedRandom {
    /// Half of the days have no trouble, one kind, or cuts after kills or stops, and the others any kinds at once.
    fileprivate mutating func chances() -> SimulatedMachine.Chances {
        var chances = SimulatedMachine.Chances()
        chances.change = [2_000, 10_000, 40_000][below(3)]
        let kinds = happens(50_000) ? below(32) : [0, 1, 2, 4, 8, 3, 10][below(7)]
        if kinds & 1 != 0 { chances.kill = 150 }
        if kinds & 2 != 0 { chances.cut = 100 }
        if kinds & 4 != 0 { chances.failure = [100, 500][below(2)] }
        if kinds & 8 != 0 { chances.stop = 300 }
        if kinds & 16 != 0 { chances.clockStep = 500 }
        return chances
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
    /// All slots that were ever asked for, besides passcodes.
    private(set) var slots: [Slot] = []
    let backupKey = BackupKey()
    let issuer = SimulatedIssuer()
    /// Where the store is, if not in files.
    var database: InMemoryStorage?

    /// Whether a process may unlock the store for all.
    var unlocksForAll = true

    /// What opens a slot. Its label is its number.
    enum Slot {
        case recoveryCode(RecoveryCode)
        case key([UInt8], opensAllClasses: Bool)
    }

    /// Returns its number.
    func addSlot(_ random: inout SimulatedRandom) -> Int {
        if random.happens(50_000) {
            slots.append(.recoveryCode(RecoveryCode()))
        } else {
            let key = (0..<32).map { _ in UInt8(random.below(256)) }
            slots.append(.key(key, opensAllClasses: random.happens(50_000)))
        }
        return slots.count - 1
    }

    /// The values in complete backups, by the numbers of the calls that made them.
    var backups: [Int: [Int: String]] = [:]
    var lastBackup: Int?
}
