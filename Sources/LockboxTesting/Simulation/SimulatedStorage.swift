import LockboxCore
import LockboxPlatform
import LockboxStore

/// A database on another machine, which the processes of a ``SimulatedMachine`` share, and which outlives its power cuts. Any call may
/// fail, also after a commit was made.
struct SimulatedStorage: WrappingStorage {
    let target: InMemoryStorage

    /// So few changes that some calls need several commits.
    var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: 1 << 20,
            maximumChanges: 4,
            isTransactional: true,
            isOnThisDevice: false
        )
    }

    func begin(_ call: StorageCall) throws { try step("\(call)") }

    private func step(_ name: String) throws {
        let process = world as? SimulatedProcess
        if let process, process.call(name, failing: [EIO], { 0 }) < 0 {
            throw LockboxError.notReachable(endpoint: "the database", reason: "it does not answer")
        }
    }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        try begin(.commit)
        let outcome = target.commit(changes, expecting: expecting)
        do { try step("answer") } catch {
            let record = changes.first.map { location(of: $0.record) } ?? "nothing"
            return .unknown(.outcomeUnknown(record: record, reason: "the answer is lost"))
        }
        return outcome
    }
}
