#if Etcd
    @_spi(Extensions) import LockboxTesting
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct ConformanceTests {
        private let cluster: EtcdCluster

        init() throws { cluster = try EtcdCluster.shared.get() }

        @Test(arguments: StorageConformance.all)
        func oneStorage(_ requirement: StorageConformance) throws {
            let root = EtcdCluster.root()
            try requirement.check(reopen: { _ in [try cluster.storage(root)] }) {
                [try cluster.storage(root)]
            }
        }

        @Test(arguments: StorageConformance.all)
        func severalStorages(_ requirement: StorageConformance) throws {
            let root = EtcdCluster.root()
            try requirement.check { try (0..<3).map { _ in try cluster.storage(root) } }
        }

        @Test(arguments: BackendConformance.all)
        func sealedBackend(_ requirement: BackendConformance) throws {
            try requirement.check { try cluster.backend(EtcdCluster.root()) }
        }
    }
#endif
