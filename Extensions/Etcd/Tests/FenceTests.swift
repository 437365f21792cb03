#if Etcd
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// A commit takes effect once or never, whatever becomes of its requests.
    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct FenceTests {
        private let cluster: EtcdCluster
        private let root = EtcdCluster.root()
        private let record = RecordName(namespace: "n", name: "record")

        init() throws { cluster = try EtcdCluster.shared.get() }

        private func put(_ storage: EtcdStorage, _ bytes: [UInt8], expecting: RecordRevision? = nil) throws
            -> CommitOutcome
        {
            try storage.commit(
                [.put(record, bytes)],
                expecting: expecting.map { [record: $0] } ?? [:]
            )
        }

        private func bytes(_ storage: EtcdStorage) throws -> [UInt8]? {
            try storage.read([record], maximum: 100)[record]?.bytes
        }

        @Test(arguments: [Relay.Loss.answer, .second])
        func aCommitWhoseAnswerIsLostIsMadeOnce(_ loss: Relay.Loss) throws {
            let relay = try Relay(to: cluster.members[0].clientPort)
            let storage = try cluster.storage(root, endpoints: [relay.endpoint])
            guard case .committed = try put(storage, [1]) else { return #expect(Bool(false)) as Void }
            relay.lose(loss)
            // Sent again, it finds that the record is no longer absent, and that it was itself.
            let other = RecordName(namespace: "n", name: "other")
            let outcome = try storage.commit([.put(other, [2])], expecting: [other: .absent])
            #expect(relay.losses == 1)
            #expect(outcome.isCommitted)
            #expect(try storage.read([other], maximum: 100)[other]?.bytes == [2])
        }

        @Test func aRequestThatArrivesLateDoesNothing() throws {
            let relay = try Relay(to: cluster.members[0].clientPort)
            let storage = try cluster.storage(root, endpoints: [relay.endpoint], timeLimit: .seconds(1))
            let direct = try cluster.storage(root)
            #expect(try put(storage, [1]).isCommitted)
            #expect(try direct.commit([.remove(record)], expecting: [:]).isCommitted)
            relay.lose(.requests)
            let outcome = try put(storage, [2], expecting: .absent)
            guard case .unknown(let error) = outcome else {
                return #expect(Bool(false), "\(outcome)") as Void
            }
            #expect(error.code == .outcomeUnknown)
            relay.pass()
            // This read ends the doubt.
            #expect(try bytes(storage) == nil)
            #expect(relay.deliverLost() >= 1)
            #expect(try bytes(direct) == nil)
            #expect(try put(storage, [3], expecting: .absent).isCommitted)
        }

        /// Without the read in between they do take effect: the test above would notice.
        @Test func aRequestThatArrivesBeforeTheDoubtIsSettledTakesEffect() throws {
            let relay = try Relay(to: cluster.members[0].clientPort)
            let storage = try cluster.storage(root, endpoints: [relay.endpoint], timeLimit: .seconds(1))
            #expect(try put(storage, [1]).isCommitted)
            relay.lose(.requests)
            guard case .unknown = try put(storage, [2]) else { return #expect(Bool(false)) as Void }
            relay.pass()
            #expect(relay.deliverLost() >= 1)
            #expect(try bytes(storage) == [2])
        }

        @Test func aConflictAfterADoubtEndsTheDoubt() throws {
            let relay = try Relay(to: cluster.members[0].clientPort)
            let storage = try cluster.storage(root, endpoints: [relay.endpoint], timeLimit: .seconds(4))
            let direct = try cluster.storage(root)
            #expect(try put(storage, [1]).isCommitted)
            relay.lose(.request)
            // The record is there, so the second copy is a conflict, while the first is still on its way.
            guard case .conflict = try put(storage, [2], expecting: .absent) else {
                return #expect(Bool(false)) as Void
            }
            #expect(relay.losses == 1)
            #expect(try bytes(storage) == [1])
            #expect(try direct.commit([.remove(record)], expecting: [:]).isCommitted)
            #expect(relay.deliverLost() == 1)
            #expect(try bytes(direct) == nil)
        }

        @Test func aCommitWhoseMarkIsGoneTakesAnother() throws {
            let storage = try cluster.storage(root)
            #expect(try put(storage, [1]).isCommitted)
            let first = try marks()
            #expect(first.count == 1)
            // Like the end of its lease.
            let gateway = storage.gateway
            let removal = Transaction(success: first.map { .delete($0) })
            let _: Gateway.Reply<TransactionAnswer> = try gateway.call(
                "/v3/kv/txn",
                removal,
                until: gateway.deadline
            )
            #expect(try put(storage, [2]).isCommitted)
            #expect(try bytes(storage) == [2])
            #expect(try marks().count == 1)
            #expect(try marks() != first)
        }

        @Test func aCommitWhoseLeaseIsGoneTakesAnother() throws {
            let storage = try cluster.storage(root)
            #expect(try put(storage, [1]).isCommitted)
            let first = try marks()
            let mark = try storage.fence.takeMark(until: .now + .seconds(5))
            storage.fence.giveBack(mark)
            let gateway = storage.gateway
            _ =
                try gateway.call(
                    "/v3/lease/revoke",
                    TextRequest(["ID": "\(mark.lease)"]),
                    until: gateway.deadline
                )
                as Gateway.Reply<Done>
            #expect(try marks().isEmpty)
            #expect(try put(storage, [2]).isCommitted)
            #expect(try marks().count == 1)
            #expect(try marks() != first)
        }

        @Test func marksAreFewAndHaveALease() throws {
            let storage = try cluster.storage(root)
            for round in 0..<20 { #expect(try put(storage, [UInt8(round)]).isCommitted) }
            #expect(try marks().count == 1)
            struct Leases: Decodable { let kvs: [Lease] }
            struct Lease: Decodable { let lease: String? }
            let connection = Connection(.insecurePlaintext)
            let response = try connection.post(
                RangeRequest(try #require(marks().first)).body,
                to: cluster.endpoints[0],
                path: "/v3/kv/range",
                headers: [],
                limit: .seconds(5),
                connecting: .seconds(1)
            )
            let leases = try JSONDecoder().decode(Leases.self, from: response.body)
            #expect(leases.kvs.first?.lease != nil)
        }

        private func marks() throws -> [Data] {
            let gateway = try cluster.storage(root).gateway
            let request = RangeRequest(Data("\(root)/f/".utf8), to: EtcdStorage.end(of: "\(root)/f"))
            let answer: RangeAnswer = try gateway.call("/v3/kv/range", request, until: gateway.deadline)
                .answer
            return answer.found.map(\.key)
        }
    }

    extension CommitOutcome {
        var isCommitted: Bool { if case .committed = self { true } else { false } }
    }
#endif
