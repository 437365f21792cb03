import LockboxCore
import LockboxPlatform
import LockboxStore

/// A database on another machine, which the processes of a ``SimulatedMachine`` share, and which outlives its power cuts. Any call may
/// fail, also after a commit was made.
struct SimulatedStorage: ForwardingStorage, PagingStorage {
    let target: InMemoryStorage

    /// So few changes that some calls need several commits.
    var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: 1 << 20,
            maximumChanges: 4,
            isTransactional: true,
            isOnThisDevice: true
        )
    }

    private func call(_ name: String) throws {
        let process = world as? SimulatedProcess
        if let process, process.call(name, failing: [EIO], { 0 }) < 0 {
            throw LockboxError.notReachable(endpoint: "the database", reason: "it does not answer")
        }
    }

    func read<Result>(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result? {
        try call("read \(record.name)")
        return try target.read(record, atLeast: minimum, maximum: maximum, body)
    }

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        try call("read \(records.count) records")
        return try target.read(records, maximum: maximum)
    }

    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws {
        try call("list \(namespace)")
        try target.forEachName(in: namespace, waitingForCommits: waitingForCommits, body)
    }

    func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        try call("list \(namespace)")
        try target.forEachPage(of: namespace, maximum: maximum, waitingForCommits: waitingForCommits, body)
    }

    func namespaces() throws -> [String] {
        try call("namespaces")
        return target.namespaces()
    }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        try call("commit \(changes.map(\.record.name))")
        let outcome = target.commit(changes, expecting: expecting)
        do { try call("answer") } catch {
            let record = changes.first.map { location(of: $0.record) } ?? "nothing"
            return .unknown(.outcomeUnknown(record: record, reason: "the answer is lost"))
        }
        return outcome
    }
}
