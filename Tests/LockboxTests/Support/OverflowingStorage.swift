import Lockbox

/// Records in memory. For every change it reports only that anything may have changed, as a queue that is full does.
struct OverflowingStorage: NotifyingStorage {
    private let wrapped = InMemoryStorage()

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

    func namespaces() -> [String] { wrapped.namespaces() }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        turn: (any CommitTurn)?
    ) -> CommitOutcome {
        wrapped.commit(changes, expecting: expecting, turn: turn)
    }

    func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) -> @Sendable () -> Void {
        wrapped.subscribe(to: namespace) { notice in report(notice.map { _ in .everything }) }
    }

    func location(of record: RecordName) -> String { wrapped.location(of: record) }
}
