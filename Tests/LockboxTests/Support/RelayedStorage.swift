import Lockbox

/// Records in memory, whose notices arrive late or changed.
struct RelayedStorage: NotifyingStorage {
    typealias Notice = Result<RecordNotice, any Error>
    typealias Report = @Sendable (Notice) -> Void

    private let wrapped = InMemoryStorage()
    private let relay: @Sendable (Notice, @escaping Report) -> Void

    /// - Parameter relay: Receives each notice, and whom it is for.
    init(_ relay: @escaping @Sendable (Notice, @escaping Report) -> Void) { self.relay = relay }

    /// For every change it reports only that anything may have changed, as a queue that is full does.
    static var overflowing: Self { Self { notice, report in report(notice.map { _ in .everything }) } }

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

    func subscribe(to namespace: String, _ report: @escaping Report) -> @Sendable () -> Void {
        wrapped.subscribe(to: namespace) { [relay] notice in relay(notice, report) }
    }

    func location(of record: RecordName) -> String { wrapped.location(of: record) }
}
