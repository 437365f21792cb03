import Lockbox

/// Records in memory. A test's storage implements what it does in another way.
protocol WrappingStorage: RecordStorage {
    var wrapped: InMemoryStorage { get }

    /// Called before each call. Its errors are those of the call.
    func begin(_ call: StorageCall) throws
}

enum StorageCall {
    case read([RecordName])
    case list, namespaces, commit
}

extension WrappingStorage {
    func begin(_ call: StorageCall) {}

    var limits: StorageLimits { wrapped.limits }

    var isOnThisDevice: Bool { true }

    func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool {
        try begin(.read([record]))
        return try wrapped.read(record, upTo: limit, maximum: maximum, body)
    }

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        try begin(.read(records))
        return try wrapped.read(records, maximum: maximum)
    }

    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws {
        try begin(.list)
        try wrapped.forEachName(in: namespace, waitingForCommits: waitingForCommits, body)
    }

    func namespaces() throws -> [String] {
        try begin(.namespaces)
        return wrapped.namespaces()
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) throws -> CommitOutcome {
        try begin(.commit)
        return wrapped.commit(changes, expecting: expecting)
    }

    func location(of record: RecordName) -> String { wrapped.location(of: record) }
}
