package import LockboxStore

/// Records in memory. A test's storage implements what it does in another way.
package protocol WrappingStorage: ForwardingStorage, PagingStorage where Target == InMemoryStorage {
    /// Called before each call. Its errors are those of the call.
    func begin(_ call: StorageCall) throws
}

package enum StorageCall {
    case read([RecordName])
    case list(String)
    case namespaces, commit
}

package extension WrappingStorage {
    func begin(_ call: StorageCall) {}

    func read(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws {
        try begin(.read([record]))
        try target.read(record, atLeast: minimum, maximum: maximum, body)
    }

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        try begin(.read(records))
        return try target.read(records, maximum: maximum)
    }

    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws {
        try begin(.list(namespace))
        try target.forEachName(in: namespace, waitingForCommits: waitingForCommits, body)
    }

    func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        try begin(.list(namespace))
        try target.forEachPage(of: namespace, maximum: maximum, waitingForCommits: waitingForCommits, body)
    }

    func namespaces() throws -> [String] {
        try begin(.namespaces)
        return target.namespaces()
    }

    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
        try begin(.commit)
        return target.commit(changes, expecting: expecting)
    }
}
