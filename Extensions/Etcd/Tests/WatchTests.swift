#if Etcd
    import Foundation
    import Testing

    @_spi(Extensions) import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// Reports of changes, beyond what `StorageConformance` and `BackendConformance` ask for.
    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct WatchTests {
        private let root = EtcdCluster.root()

        private func put(_ storage: EtcdStorage, _ name: String) throws {
            let record = RecordName(namespace: "n", name: name)
            #expect(try storage.commit([.put(record, [1])], expecting: [:]).isCommitted)
        }

        @Test func nothingIsMissedWhileAMemberIsKilled() throws {
            let cluster = try EtcdCluster(members: 3)
            let watching = try cluster.storage(root)
            let notices = Notices()
            let cancel = try watching.subscribe(to: "n") { notices.receive($0) }
            defer { cancel() }
            let storage = try cluster.storage(root, endpoints: [cluster.endpoints[1], cluster.endpoints[2]])
            try put(storage, "before")
            #expect(notices.wait { $0.names == ["before"] })
            // The one that is watched.
            cluster.members[0].end()
            for number in 0..<10 { try put(storage, "\(number)") }
            #expect(notices.wait { $0.names.count == 11 })
            try put(storage, "after")
            #expect(notices.wait { $0.names.contains("after") })
        }

        @Test func afterACompactionAnythingMayHaveChanged() throws {
            let cluster = try EtcdCluster(members: 1)
            let storage = try cluster.storage(root, timeLimit: .seconds(2))
            let notices = Notices()
            try put(storage, "a")
            let cancel = try storage.subscribe(to: "n") { notices.receive($0) }
            defer { cancel() }
            try put(storage, "b")
            #expect(notices.wait { $0.names == ["b"] })
            for name in ["c", "d", "e"] { try put(storage, name) }
            try compact(storage)
            // Its connection seems to have been gone for long.
            let direct = Watch(storage, folder: "\(root)/i/n") { notices.receive($0) }
            try direct.start(from: 2)
            defer { direct.cancel() }
            #expect(notices.wait { $0.everything == 1 })
            try put(storage, "f")
            #expect(notices.wait { $0.names.contains("f") && $0.everything == 1 })
        }

        private func compact(_ storage: EtcdStorage) throws {
            let revision = try storage.nextRevision() - 1
            let request = TextRequest(["revision": "\(revision)"])
            let gateway = storage.gateway
            _ =
                try gateway.call("/v3/kv/compaction", request, until: gateway.deadline)
                as Gateway.Reply<Done>
        }

        @Test func listsGoOnAfterACompaction() throws {
            let cluster = try EtcdCluster(members: 1)
            let storage = try cluster.storage(root)
            for number in 0..<300 { try put(storage, "\(number)") }
            let records = (0..<300).map { RecordName(namespace: "n", name: "\($0)") }
            let isOver = Protected(false)
            func timeOfRead() throws -> UInt32 {
                let begin = ContinuousClock.now
                #expect(try storage.read(records, maximum: 10).count == 300)
                return UInt32(begin.duration(to: .now) / .microseconds(1))
            }
            // Microseconds between compactions: on a busy machine, no read would ever come to its end.
            let pause = Protected(try timeOfRead() * 5)
            let ended = DispatchSemaphore(value: 0)
            try detachThread {
                while !isOver.withLock({ $0 }) {
                    _ = try? storage.commit([.put(records[0], [1])], expecting: [:])
                    try? compact(storage)
                    usleep(max(100_000, pause.withLock { $0 }))
                }
                ended.signal()
            }
            defer {
                isOver.withLock { $0 = true }
                ended.wait()
            }
            for _ in 0..<150 {
                let time = try timeOfRead()
                pause.withLock { $0 = max($0, time * 5) }
            }
        }
    }
#endif
