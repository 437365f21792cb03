#if Etcd
    import Foundation
    import Lockbox
    import LockboxEtcd

    /// Notes how large the transactions are in which a storage in etcd writes.
    final class WatchedStorage: RecordStorage {
        private let storage: EtcdStorage
        private let lock = NSLock()
        nonisolated(unsafe) private var sizes: [Int] = []

        init(_ storage: EtcdStorage) { self.storage = storage }

        var commits: (count: Int, largest: Int) { lock.withLock { (sizes.count, sizes.max() ?? 0) } }
        func reset() { lock.withLock { sizes = [] } }

        func commit(
            _ changes: [RecordChange],
            expecting: [RecordName: RecordRevision]
        ) throws -> CommitOutcome {
            // One operation, and one comparison, are the fence's.
            lock.withLock { sizes.append(max(changes.count, expecting.count) + 1) }
            return try storage.commit(changes, expecting: expecting)
        }

        var limits: StorageLimits { storage.limits }
        var isOnThisDevice: Bool { storage.isOnThisDevice }

        func read(
            _ record: RecordName,
            upTo limit: Int,
            maximum: Int,
            _ body: (RecordContents) throws -> Void
        ) throws -> Bool { try storage.read(record, upTo: limit, maximum: maximum, body) }

        func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
            try storage.read(records, maximum: maximum)
        }

        func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void)
            throws
        {
            try storage.forEachName(in: namespace, waitingForCommits: waitingForCommits, body)
        }

        func forEachPage(
            of namespace: String,
            maximum: Int,
            waitingForCommits: Bool,
            _ body: ([(name: String, record: Record?)]) throws -> Void
        ) throws {
            try storage.forEachPage(
                of: namespace,
                maximum: maximum,
                waitingForCommits: waitingForCommits,
                body
            )
        }

        func namespaces() throws -> [String] { try storage.namespaces() }
        func location(of record: RecordName) -> String { storage.location(of: record) }
    }
#endif
