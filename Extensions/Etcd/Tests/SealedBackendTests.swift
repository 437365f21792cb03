#if Etcd
    import Lockbox
    import Foundation
    import LockboxTesting
    import Testing

    @_spi(Extensions) import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// The promises of `SealedBackend`, by several instances on one cluster, as on different machines.
    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct SealedBackendTests {
        private let cluster: EtcdCluster
        private let root = EtcdCluster.root()

        init() throws { cluster = try EtcdCluster.shared.get() }

        @Test func noIncrementIsLost() throws {
            let instances = try (0..<2).map { _ in try cluster.backend(root).lockbox("p")
            }
            try inThreads(4) { thread in
                for _ in 0..<200 {
                    try instances[thread % 2].update("count", as: Int.self) { $0 = ($0 ?? 0) + 1 }
                }
            }
            #expect(
                try cluster.backend(root).lockbox("p").unarchiveObject(forKey: "count")
                    == 800
            )
        }

        @Test func twentyThatStartAtOnceMakeOneKeybag() throws {
            let root = root
            let cluster = cluster
            let keybags = Protected<Set<RecordRevision>>([])
            try inThreads(20) { thread in
                let backend = try cluster.backend(root)
                let lockbox = try backend.lockbox("p")
                try lockbox.archiveObject(thread, forKey: "key \(thread)")
                let record = RecordName(name: "keybag")
                let found = try backend.storage.read([record], maximum: 100_000)[record]
                keybags.withLock { _ = $0.insert(found?.revision ?? .absent) }
            }
            #expect(keybags.withLock { $0.count } == 1)
            let all = try cluster.backend(root).lockbox("p")
            for thread in 0..<20 { #expect(try all.unarchiveObject(forKey: "key \(thread)") == thread) }
        }

        @Test func nothingReadableIsInEtcd() throws {
            let secrets = [
                "a-prefix-to-find", "a-key-to-find", "a-value-to-find", "a-label-to-find",
                "a-comment-to-find",
            ]
            let lockbox = try cluster.backend(root).lockbox(secrets[0])
            try lockbox.archiveObject(
                secrets[2],
                forKey: secrets[1],
                options: WriteOptions(label: .set(secrets[3]), comment: .set(secrets[4]))
            )
            #expect(try lockbox.unarchiveObject(forKey: secrets[1]) == secrets[2])
            let dump = try everything()
            #expect(dump.count >= 3)  // keybag, item, mark
            for text in secrets {
                for bytes in [Data(text.utf8), Data(Data(text.utf8).base64EncodedString().utf8)] {
                    #expect(!dump.contains { $0.range(of: bytes) != nil }, "\(text) is in etcd")
                }
            }
        }

        /// Keys and values.
        private func everything() throws -> [Data] {
            let gateway = try cluster.storage(root).gateway
            var request = RangeRequest(Data([0]), to: Data([0xFF]))
            request.limit = 1_000_000
            let answer: RangeAnswer = try gateway.call("/v3/kv/range", request, until: gateway.deadline)
                .answer
            return answer.found.map { $0.key + $0.value }
        }

        @Test func theDeviceKeyIsNotKeptInEtcd() throws {
            let storage = try cluster.storage(root)
            let backend = SealedBackend(storage: storage)
            let lockbox = try backend.lockbox("p")
            expectError(.invalidDeviceKey) { try lockbox.archiveObject("value", forKey: "key") }
            #expect(
                try storage.read([RecordName(name: "keybag"), RecordName(name: "device-key")], maximum: 9999)
                    .isEmpty
            )
            // A rotation does not put it there either.
            let other = try cluster.backend(root)
            try other.lockbox("p").archiveObject("value", forKey: "key")
            expectError(.invalidDeviceKey) { try other.rotateKeys(newDeviceKey: .stored) }
            #expect(try storage.read([RecordName(name: "device-key")], maximum: 9999).isEmpty)
            #expect(
                try cluster.backend(root).lockbox("p").unarchiveObject(forKey: "key")
                    == "value"
            )
        }

        @Test func aValueOfNineHundredKilobytesFits() throws {
            let backend = try cluster.backend(root)
            #expect((900_000..<1_000_000).contains(backend.maximumValueSize), "\(backend.maximumValueSize)")
        }

        @Test func manyLargeItemsAreWrittenInSeveralTransactions() throws {
            let lockbox = try cluster.backend(root).lockbox("p")
            let value = Data(repeating: 7, count: 300_000)
            try lockbox.batch { batch in
                for number in 0..<10 { try batch.archiveObject(value, forKey: "\(number)") }
            }
            try lockbox.batch { batch in
                for number in 10..<300 { try batch.archiveObject("small", forKey: "\(number)") }
            }
            #expect(try lockbox.allKeys().count == 300)
        }

        @Test func anInstanceTakesTheKeybagOfAnotherOnesRotation() throws {
            let (one, two) = (try cluster.backend(root), try cluster.backend(root))
            let first = try one.lockbox("p")
            let second = try two.lockbox("p")
            try first.archiveObject("old", forKey: "key")
            #expect(try second.unarchiveObject(forKey: "key") == "old")
            _ = try one.rotateKeys()
            try second.archiveObject("new", forKey: "other")
            #expect(try first.unarchiveObject(forKey: "other") == "new")
            #expect(try second.unarchiveObject(forKey: "key") == "old")
        }
    }

    /// Runs `body` in as many threads, and rethrows the first error of one of them.
    func inThreads(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) throws {
        let failure = Protected<(any Error)?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        for thread in 0..<count {
            try detachThread {
                do { try body(thread) } catch { failure.withLock { $0 = $0 ?? error } }
                isDone.signal()
            }
        }
        for _ in 0..<count { isDone.wait() }
        if let failure = failure.withLock({ $0 }) { throw failure }
    }
#endif
