import Lockbox

/// Records in memory. A test's storage implements what it does in another way.
protocol WrappingStorage: RecordStorage {
    var wrapped: InMemoryStorage { get }
}

extension WrappingStorage {
    var limits: StorageLimits { wrapped.limits }

    func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool {
        try wrapped.read(record, upTo: limit, maximum: maximum, body)
    }

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        try wrapped.read(records, maximum: maximum)
    }

    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws {
        try wrapped.forEachName(in: namespace, waitingForCommits: waitingForCommits, body)
    }

    func namespaces() throws -> [String] { wrapped.namespaces() }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        turn: (any CommitTurn)?
    ) throws -> CommitOutcome {
        wrapped.commit(changes, expecting: expecting, turn: turn)
    }

    func location(of record: RecordName) -> String { wrapped.location(of: record) }
}
