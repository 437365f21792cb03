public import LockboxCore
public import LockboxStore

/// A storage that keeps records in memory. A `SealedBackend` with it supports what one on disk does, including passcode
/// and lock, except quarantine.
public final class InMemoryStorage: PagingStorage, WatchingStorage {
    private struct State {
        var records: [RecordName: Record] = [:]
        var namespaces: Set<String> = []
        var revision: UInt64 = 0
    }

    private let state = Protected(State())
    private let subscribers = Subscribers<String, Result<RecordNotice, any Error>>()

    /// Creates an empty storage.
    public init() {}

    /// Practically unlimited, and transactional.
    public var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: .max,
            maximumChanges: .max,
            isTransactional: true,
            isOnThisDevice: true
        )
    }

    /// Calls a closure with the bytes of a record, unless it is absent.
    public func read(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws {
        guard let found = state.withLock({ $0.records[record] }) else { return }
        try check(found, record, maximum)
        var bytes = found.bytes
        try bytes.withUnsafeMutableBytes {
            try body(RecordContents(bytes: $0, revision: found.revision))
        }
    }

    /// Returns several records. Absent ones are left out.
    public func read(_ records: [RecordName], maximum: Int) throws(LockboxError) -> [RecordName: Record] {
        let found = state.withLock { state in
            records.reduce(into: [RecordName: Record]()) { $0[$1] = state.records[$1] }
        }
        for (name, record) in found { try check(record, name, maximum) }
        return found
    }

    private func check(_ record: Record, _ name: RecordName, _ maximum: Int) throws(LockboxError) {
        guard record.bytes.count > maximum else { return }
        throw LockboxError.corrupt(record: subject(of: name), reason: "it has more than \(maximum) bytes")
    }

    /// Calls a closure with the name of every record in a namespace.
    public func forEachName(
        in namespace: String,
        waitingForCommits: Bool,
        _ body: (String) throws -> Void
    ) rethrows {
        let names = state.withLock { $0.records.keys.filter { $0.namespace == namespace }.map(\.name) }
        for name in names { try body(name) }
    }

    /// Calls a closure with all records of a namespace, as of one instant.
    public func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) rethrows {
        let found = state.withLock { $0.records.filter { $0.key.namespace == namespace } }
        try body(found.map { (name: $0.name, record: $1.bytes.count > maximum ? nil : $1) })
    }

    /// Returns the namespaces.
    public func namespaces() -> [String] { state.withLock { Array($0.namespaces) } }

    /// Makes all of the changes if the records have the expected revisions, otherwise none. Never returns
    /// `CommitOutcome.unknown(_:)`.
    public func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) -> CommitOutcome {
        let outcome = change(changes, expecting)
        if case .committed = outcome {
            for record in changes.map(\.record) {
                guard let namespace = record.namespace else { continue }
                subscribers.report(.success(.records([record.name])), to: namespace)
            }
        }
        return outcome
    }

    private func change(_ changes: [RecordChange], _ expecting: [RecordName: RecordRevision]) -> CommitOutcome
    {
        state.withLock { state in
            for (record, revision) in expecting
            where state.records[record]?.revision ?? .absent != revision { return .conflict }
            for change in changes {
                state.revision += 1
                if let namespace = change.record.namespace { state.namespaces.insert(namespace) }
                switch change {
                case .put(let record, let bytes):
                    state.records[record] = Record(bytes: bytes, revision: RecordRevision(state.revision))
                case .remove(let record): state.records[record] = nil
                }
            }
            return .committed
        }
    }

    /// Begins to report changes of the records in a namespace.
    public func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) -> @Sendable () -> Void {
        subscribers.add(namespace, report)
    }

    /// Returns the record's name.
    ///
    /// - Parameter record: The record's name. The record need not exist.
    public func location(of record: RecordName) -> String {
        "\(record.namespace.map { "\($0)/" } ?? "")\(record.name)"
    }
}

extension InMemoryStorage: Undescribed {}
