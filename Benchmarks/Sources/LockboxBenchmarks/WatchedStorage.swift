#if Etcd
    import Foundation
    import Lockbox
    import LockboxEtcd
    import LockboxStore
    @_spi(Extensions) import LockboxTesting

    /// Notes how large the transactions are in which a storage in etcd writes.
    final class WatchedStorage: ForwardingStorage, PagingStorage, WatchingStorage {
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

        var target: EtcdStorage { storage }
    }
#endif
