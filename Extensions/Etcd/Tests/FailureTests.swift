#if Etcd
    import Lockbox
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// Three members, of which some are killed or stopped. One test at a time: they measure. Proofs/Cluster kills leaders under load.
    @Suite(.serialized, .enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct FailureTests {
        private let cluster: EtcdCluster
        private let root = EtcdCluster.root()

        init() throws { cluster = try EtcdCluster(members: 3) }

        @Test func withoutAQuorumCallsEndInTime() throws {
            let limit = Duration.seconds(1)
            // More than that would be a limit for each member, or for each try.
            let bound = limit * 2
            let (storage, patient) = (try cluster.storage(root, timeLimit: limit), try cluster.storage(root))
            let record = RecordName(name: "record")
            #expect(try patient.commit([.put(record, [1])], expecting: [:]).isCommitted)
            try cluster.backend(root).lockbox().archiveObject("v", forKey: "k")
            let backend = SealedBackend(storage: storage, deviceKey: .closure { EtcdCluster.deviceKey })
            let lockbox = try backend.lockbox()
            #expect(try eventually { try lockbox.unarchiveObject(String.self, forKey: "k") } == "v")
            let removals = [{ try lockbox.removeObject(forKey: "k") }, { try lockbox.removeAllObjects() }]
            let followers = try cluster.followers()
            followers.forEach { $0.pause() }
            for round in 0..<3 {
                var start = ContinuousClock.now
                expectError(.notReachable) { try storage.read([record], maximum: 10) }
                #expect(ContinuousClock.now - start < bound, "a read in round \(round)")
                start = .now
                do {
                    let outcome = try storage.commit([.put(record, [2])], expecting: [:])
                    guard case .unknown(let error) = outcome else {
                        Issue.record("\(outcome)")
                        return
                    }
                    #expect(error.code == .outcomeUnknown)
                } catch let error as LockboxError { #expect(error.code == .notReachable) }
                #expect(ContinuousClock.now - start < bound, "a commit in round \(round)")
            }
            for call in removals {
                let start = ContinuousClock.now
                #expect([.notReachable, .outcomeUnknown].contains(lockboxError(call)?.code))
                #expect(ContinuousClock.now - start < bound, "a removal")
            }
            followers.forEach { $0.resume() }
            _ = try eventually { try storage.read([record], maximum: 10)[record]?.bytes }
            #expect(try patient.commit([.put(record, [3])], expecting: [:]).isCommitted)
            #expect(try eventually { try storage.read([record], maximum: 10)[record]?.bytes } == [3])
        }

        @Test func withoutAnyMemberNothingIsChanged() throws {
            let storage = try cluster.storage(root, timeLimit: .seconds(1))
            let record = RecordName(name: "record")
            cluster.members.forEach { $0.end() }
            expectError(.notReachable) { try storage.commit([.put(record, [1])], expecting: [:]) }
        }

        /// Until it succeeds and finds something, for as long as an election can take.
        private func eventually<Found>(_ body: () throws -> Found?) throws -> Found {
            let deadline = ContinuousClock.now + .seconds(20)
            while ContinuousClock.now < deadline {
                if let found = try? body() { return found }
            }
            return try #require(try body(), "it took too long")
        }
    }
#endif
