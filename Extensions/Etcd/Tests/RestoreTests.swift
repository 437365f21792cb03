#if Etcd
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// An instance that goes on while the cluster becomes an older one, or another one.
    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct RestoreTests {
        private let cluster: EtcdCluster
        private let member: EtcdServer
        private let record = RecordName(name: "record")

        init() throws {
            cluster = try EtcdCluster(members: 1)
            member = cluster.members[0]
        }

        private func put(_ storage: EtcdStorage, _ bytes: [UInt8]) throws {
            #expect(try storage.commit([.put(record, bytes)], expecting: [:]).isCommitted)
        }

        enum Call: CaseIterable { case read, commit }

        /// By the next call, whichever it is. A later one finds what is there.
        private func expect(_ code: LockboxError.Code, of call: Call, _ storage: EtcdStorage) {
            switch call {
            case .read: expectError(code) { try storage.read([record], maximum: 10) }
            case .commit:
                do {
                    let outcome = try storage.commit([.put(record, [9])], expecting: [:])
                    #expect(
                        !outcome.isCommitted,
                        "it was written to a cluster that is not the one from before"
                    )
                } catch { #expect((error as? LockboxError)?.code == code) }
            }
            #expect(throws: Never.self) { try storage.read([record], maximum: 10) }
        }

        @Test(arguments: Call.allCases) func anOlderStateIsNoticed(_ call: Call) throws {
            // Another member that does not answer hides nothing.
            let endpoints = [member.endpoint, "http://127.0.0.1:1"]
            let storage = try cluster.storage(endpoints: endpoints, timeLimit: .seconds(3))
            try put(storage, [1])
            try cluster.rollBack(member) { for byte in UInt8(2)...5 { try put(storage, [byte]) } }
            expect(.rolledBack, of: call, storage)
            #expect(try cluster.storage().read([record], maximum: 10)[record]?.bytes == [1])
        }

        /// etcd would wait until the revision that is watched for comes again.
        @Test func aSubscriptionEndsWhenTheClusterIsOlder() throws {
            let storage = try cluster.storage(timeLimit: .seconds(3))
            try put(storage, [1])
            let error = Protected<LockboxError?>(nil)
            let cancel = try cluster.rollBack(member) {
                for byte in UInt8(2)...9 { try put(storage, [byte]) }
                return try storage.subscribe(to: "namespace") { notice in
                    if case .failure(let failure) = notice {
                        error.withLock { $0 = failure as? LockboxError }
                    }
                }
            }
            defer { cancel() }
            let deadline = ContinuousClock.now + .seconds(20)
            while error.withLock({ $0 }) == nil, ContinuousClock.now < deadline { usleep(10_000) }
            #expect(error.withLock { $0?.code } == .rolledBack)
        }

        /// Revisions count on from the snapshot, so another keybag can have the revision of the one that was there.
        @Test func aRevisionThatIsUsedAgainIsAnotherOne() throws {
            let (storage, before) = try cluster.rollBack(member) {
                let storage = try cluster.storage(timeLimit: .seconds(3))
                try put(storage, [1])
                return (storage, try #require(try storage.read([record], maximum: 10)[record]?.revision))
            }
            let other = try cluster.storage()
            try put(other, [2])
            let now = try #require(try other.read([record], maximum: 10)[record]?.revision)
            #expect(now.numbers[0] == before.numbers[0] && now != before, "or this tests nothing")
            // Beyond what the first one has seen.
            let item = RecordName(namespace: "n", name: "item")
            for _ in 0..<9 {
                #expect(try other.commit([.put(item, [1])], expecting: [:]).isCommitted)
            }
            // Whoever expects the first one need not be who reads the second.
            #expect(try storage.read([record], maximum: 10)[record]?.bytes == [2])
            let outcome = try storage.commit([.put(item, [9])], expecting: [record: before])
            guard case .conflict = outcome else { return #expect(Bool(false), "\(outcome)") as Void }
            #expect(try other.commit([.put(item, [9])], expecting: [record: now]).isCommitted)
        }

        @Test(arguments: Call.allCases) func anotherClusterIsNoticed(_ call: Call) throws {
            let storage = try cluster.storage(timeLimit: .seconds(3))
            try put(storage, [1])
            let before = try storage.read([record], maximum: 10)[record]?.revision
            try cluster.restart(member, token: "second") {
                try FileManager.default.removeItem(atPath: member.folder)
            }
            expect(.storeReplaced, of: call, storage)
            // The same bytes at the same revision of another cluster are another revision.
            let other = try cluster.storage()
            #expect(try other.read([record], maximum: 10).isEmpty)
            try put(other, [1])
            #expect(try other.read([record], maximum: 10)[record]?.revision != before)
            // Also if the first thing that a storage asks for is this.
            for storage in [other, try cluster.storage()] {
                let outcome = try storage.commit(
                    [.put(record, [2])],
                    expecting: [record: #require(before)]
                )
                guard case .conflict = outcome else { return #expect(Bool(false), "\(outcome)") as Void }
            }
        }
    }
#endif
