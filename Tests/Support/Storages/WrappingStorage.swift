import Lockbox
@_spi(Extensions) import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Records in memory. A test's storage implements what it does in another way.
protocol WrappingStorage: ForwardingStorage, PagingStorage where Target == InMemoryStorage {
    var wrapped: InMemoryStorage { get }

    /// Called before each call. Its errors are those of the call.
    func begin(_ call: StorageCall) throws
}

enum StorageCall {
    case read([RecordName])
    case list(String)
    case namespaces, commit
}

extension WrappingStorage {
    var target: InMemoryStorage { wrapped }

    func begin(_ call: StorageCall) {}

    func read<Result>(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result? {
        try begin(.read([record]))
        return try wrapped.read(record, atLeast: minimum, maximum: maximum, body)
    }

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        try begin(.read(records))
        return try wrapped.read(records, maximum: maximum)
    }

    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws {
        try begin(.list(namespace))
        try wrapped.forEachName(in: namespace, waitingForCommits: waitingForCommits, body)
    }

    func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        try begin(.list(namespace))
        try wrapped.forEachPage(of: namespace, maximum: maximum, waitingForCommits: waitingForCommits, body)
    }

    func namespaces() throws -> [String] {
        try begin(.namespaces)
        return wrapped.namespaces()
    }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        try begin(.commit)
        return wrapped.commit(changes, expecting: expecting)
    }
}
