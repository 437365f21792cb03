#if Etcd
    import Lockbox
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @testable import LockboxStore

    /// Three members, of which some are killed or stopped. One test at a time: they measure.
    @Suite(.serialized, .enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct FailureTests {
        private let cluster: EtcdCluster
        private let root = EtcdCluster.root()

        init() throws { cluster = try EtcdCluster(members: 3) }

        enum Trouble: String, CaseIterable { case kill, pause }

        /// Each thread owns some keys. It writes, updates, removes and reads them, and knows what must be there.
        @Test(arguments: Trouble.allCases)
        func nothingIsLostAndNothingComesBack(_ trouble: Trouble) throws {
            let root = root
            let cluster = cluster
            let (isDone, steps) = (Protected(false), Protected(0))
            let counts = Protected(KeyOwner.Counts())
            let workers = Protected<(any Error)?>(nil)
            let ended = DispatchSemaphore(value: 0)
            for thread in 0..<4 {
                try detachThread {
                    do {
                        let storage = try cluster.storage(root, timeLimit: .seconds(1))
                        var owner = KeyOwner(storage: storage, thread: thread)
                        while !isDone.withLock({ $0 }) {
                            try owner.step()
                            steps.withLock { $0 += 1 }
                        }
                        counts.withLock { $0.add(owner.counts) }
                    } catch { workers.withLock { $0 = $0 ?? error } }
                    ended.signal()
                }
            }
            /// Without the old leader another one has to be elected first.
            func waitForSteps() {
                let (goal, end) = (steps.withLock { $0 } + 200, ContinuousClock.now + .seconds(30))
                while steps.withLock({ $0 }) < goal, .now < end, workers.withLock({ $0 == nil }) {
                    usleep(1000)
                }
                #expect(steps.withLock { $0 } >= goal, "service does not go on")
            }
            for _ in 0..<3 {
                waitForSteps()
                let leader = try cluster.leader()
                switch trouble {
                case .kill:
                    leader.end()
                    waitForSteps()
                    try cluster.restart(leader)
                case .pause:
                    leader.pause()
                    waitForSteps()
                    leader.resume()
                }
                waitForSteps()
            }
            isDone.withLock { $0 = true }
            for _ in 0..<4 { ended.wait() }
            if let error = workers.withLock({ $0 }) { throw error }
            let found = counts.withLock { $0 }
            print("\(trouble): \(found)")
            #expect(found.writes > 100)
        }

        @Test func withoutAQuorumCallsEndInTime() throws {
            let limit = Duration.seconds(1)
            // More than that would be a limit for each member, or for each try.
            let bound = limit * 2
            let (storage, patient) = (try cluster.storage(root, timeLimit: limit), try cluster.storage(root))
            let record = RecordName(name: "record")
            #expect(try patient.commit([.put(record, [1])], expecting: [:]).isCommitted)
            try cluster.backend(root).lockbox().archiveObject("v", forKey: "k")
            let backend = SealedBackend(storage: storage, deviceKey: .bytes(EtcdCluster.deviceKey))
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

        @Test func serviceGoesOnAfterTheLeaderIsKilled() throws {
            let storage = try cluster.storage(root)
            let record = RecordName(name: "record")
            #expect(try storage.commit([.put(record, [1])], expecting: [:]).isCommitted)
            try cluster.leader().end()
            let start = ContinuousClock.now
            #expect(try storage.commit([.put(record, [2])], expecting: [:]).isCommitted)
            print("written \(ContinuousClock.now - start) after the leader was killed")
            #expect(try storage.read([record], maximum: 10)[record]?.bytes == [2])
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

    /// Changes a few records that nobody else does, and compares what it reads with what it knows.
    private struct KeyOwner {
        struct Counts: CustomStringConvertible {
            var writes = 0, reads = 0, unknown = 0, refused = 0

            mutating func add(_ other: Counts) {
                writes += other.writes
                reads += other.reads
                unknown += other.unknown
                refused += other.refused
            }

            var description: String {
                "\(writes) writes, \(reads) reads, \(unknown) unknown, \(refused) refused"
            }
        }

        struct Anomaly: Error, CustomStringConvertible { let description: String }

        let storage: EtcdStorage
        let thread: Int
        var counts = Counts()
        private var number: UInt64 = 0
        /// What each record may hold; nil for absent. More than one only after an unknown outcome, until the next read.
        private var possible: [RecordName: [UInt64?]] = [:]
        private var revisions: [RecordName: RecordRevision] = [:]

        init(storage: EtcdStorage, thread: Int) {
            self.storage = storage
            self.thread = thread
        }

        mutating func step() throws {
            let record = RecordName(namespace: "n", name: "\(thread)-\(Int.random(in: 0..<3))")
            try read(record)
            number += 1
            let isAbsent = revisions[record] == .absent
            // Without expectations, too: those would come back whatever is there.
            let expecting = Bool.random() ? [record: revisions[record] ?? .absent] : [:]
            let isRemoval = !isAbsent && Bool.random()
            let bytes = withUnsafeBytes(of: number) { Array($0) }
            let change = isRemoval ? RecordChange.remove(record) : .put(record, bytes)
            try commit(change, expecting, to: isRemoval ? nil : number)
            try read(record)
        }

        private mutating func commit(
            _ change: RecordChange,
            _ expecting: [RecordName: RecordRevision],
            to value: UInt64?
        ) throws {
            let record = change.record
            do {
                switch try storage.commit([change], expecting: expecting) {
                case .committed:
                    counts.writes += 1
                    possible[record] = [value]
                case .conflict: throw Anomaly(description: "a conflict on \(record) which nobody else writes")
                case .unknown:
                    counts.unknown += 1
                    possible[record, default: [nil]].append(value)
                }
            } catch let error as LockboxError where error.code == .notReachable {
                counts.refused += 1
            }
        }

        private mutating func read(_ record: RecordName) throws {
            let deadline = ContinuousClock.now + .seconds(30)
            while true {
                do {
                    let found = try storage.read([record], maximum: 100)[record]
                    let value = found?.bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
                    counts.reads += 1
                    let expected = possible[record] ?? [nil]
                    guard expected.contains(value) else {
                        throw Anomaly(description: "\(record) is \(value as Any) and not in \(expected)")
                    }
                    possible[record] = [value]
                    revisions[record] = found?.revision ?? .absent
                    return
                } catch let error as LockboxError where error.code == .notReachable {
                    if ContinuousClock.now > deadline { throw error }
                }
            }
        }
    }
#endif
