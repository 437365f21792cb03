#if Etcd
    import Lockbox
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// The cost of calls on a network.
    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct RoundTripTests {
        private let relay: Relay
        private let backend: SealedBackend
        private let lockbox: Lockbox

        init() throws {
            let cluster = try EtcdCluster.shared.get()
            relay = try Relay(to: cluster.members[0].clientPort)
            let storage = try cluster.storage(EtcdCluster.root(), endpoints: [relay.endpoint])
            backend = SealedBackend(storage: storage, deviceKey: .closure { EtcdCluster.deviceKey })
            lockbox = try backend.lockbox("p")
        }

        private func trips(_ body: () throws -> Void) rethrows -> Int {
            let before = relay.requests
            try body()
            return relay.requests - before
        }

        @Test func oneItem() throws {
            try lockbox.archiveObject("value", forKey: "key")  // makes the store, and a mark
            #expect(try trips { _ = try lockbox.unarchiveObject(String.self, forKey: "key") } == 1)
            #expect(try trips { try lockbox.archiveObject("other", forKey: "key") } == 2)
            #expect(try trips { try lockbox.archiveObject("new", forKey: "new") } == 2)
            #expect(try trips { try lockbox.update("key", as: String.self) { $0? += "!" } } == 2)
            #expect(try trips { try lockbox.removeObject(forKey: "key") } <= 2)
        }

        /// Two processes that write to one connection would get each other's answers.
        @Test func aForkedProcessHasConnectionsOfItsOwn() throws {
            let process = Protected(1)
            let gateway = Gateway(
                endpoints: [relay.endpoint],
                security: .insecurePlaintext,
                user: nil,
                timeLimit: .seconds(5),
                process: { process.withLock { $0 } }
            )
            func call() throws -> Int {
                let before = relay.connections
                let _: RangeAnswer = try gateway.call(
                    "/v3/kv/range",
                    RangeRequest(Data([1])),
                    until: gateway.deadline
                )
                .answer
                return relay.connections - before
            }
            #expect(try call() == 1)
            #expect(try call() == 0)
            process.withLock { $0 = 2 }
            #expect(try call() == 1)
            #expect(try call() == 0)
        }

        @Test func aSubscriptionToManyItems() throws {
            let keys = (0..<300).map { "\($0)" }
            try lockbox.batch { for key in keys { try $0.archiveObject("value", forKey: key) } }
            let subscription = try trips {
                let cancel = try backend.subscribe(prefix: "p") { _ in }
                cancel()
            }
            // The keybag, the revision, the subscription and pages of items.
            #expect(subscription < 10)
        }

        @Test func manyItems() throws {
            let keys = (0..<1000).map { "\($0)" }
            let write = try trips {
                try lockbox.batch { for key in keys { try $0.archiveObject("value", forKey: key) } }
            }
            // Eight commits, two reads for each, and what makes the store.
            #expect(write < 40)
            var count = 0
            let list = try trips { count = try lockbox.allKeys().count }
            #expect(count == 1000)
            #expect(list <= 3)
            let rotation = try trips { count = try backend.rotateKeys().resealedCount }
            #expect(count == 1000)
            #expect(rotation < 80)
            #expect(try lockbox.unarchiveObject(String.self, forKey: "999") == "value")
        }
    }
#endif
