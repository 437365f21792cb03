import Lockbox

/// Records in memory, to which commits wait for nobody. Before each call of it another process may do something.
struct InterruptedStorage: WrappingStorage {
    let wrapped: InMemoryStorage
    let interruption: Interruption

    func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool {
        interruption.call()
        return try wrapped.read(record, upTo: limit, maximum: maximum, body)
    }

    /// As of one moment, as the limits say.
    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        interruption.call()
        return try wrapped.read(records, maximum: maximum)
    }

    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws {
        interruption.call()
        try wrapped.forEachName(in: namespace, waitingForCommits: waitingForCommits, body)
    }

    func namespaces() -> [String] {
        interruption.call()
        return wrapped.namespaces()
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        turn: (any CommitTurn)?
    ) -> CommitOutcome {
        interruption.call()
        return wrapped.commit(changes, expecting: expecting, turn: turn)
    }
}
