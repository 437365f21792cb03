import Lockbox
@_spi(Extensions) import LockboxCore

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
        _ body: (_ note: (String?) -> Void) throws -> SimulatedHistory.Answer
    ) {
        if leftOut.contains(number) { return }
        machine.noteOperation()
        time += 1
        let index = history.calls.count
        var loaded: [Int: String] = [:]
        if case .load(let backup) = operation { loaded = knowledge.backups[backup] ?? [:] }
        history.calls.append(
            .init(caller: caller, number: number, operation: operation, loaded: loaded, begin: time)
        )
        let failures = machine.counts.failures
        do {
            let answer = try body { history.calls[index].note = $0 }
            if process.isDead { return }
            time += 1
            (history.calls[index].end, history.calls[index].answer) = (time, answer)
            if answer == .none, operation.isOfLockbox2, machine.counts.failures == failures {
                history.calls[index].answer = .refused
            }
        } catch {
            history.calls[index].failure = "\(error)"
            if operation.isOfOneItem, (error as? LockboxError)?.saysNothingWasChanged ?? false {
                history.calls[index].answer = .refused
            }
            if process.isDead || machine.counts.failures > failures || isExpected(error, of: operation) {
                return
            }
            unexpected = unexpected ?? "\(caller) \(operation): \(error)"
        }
    }

    private func isExpected(_ error: any Error, of operation: SimulatedHistory.Operation) -> Bool {
        switch (error as? LockboxError)?.code {
        // Another process has changed the keys after the first of two steps.
        case .outcomeUnknown: operation.changesKeys
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
