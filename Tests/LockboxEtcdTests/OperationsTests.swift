#if Etcd
    import Foundation
    import Testing

    import Lockbox
    @testable import LockboxCore
    @testable import LockboxEtcd
    @testable import LockboxSealed

    /// What is done to a whole store, while another instance on another machine goes on with it.
    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct OperationsTests {
        private let cluster: EtcdCluster
        private let root = EtcdCluster.root()
        private let folder =
            "\(NSTemporaryDirectory())/lockbox-etcd-operations-\(UInt64.random(in: .min ... .max))"

        init() throws { cluster = try EtcdCluster.shared.get() }

        private func backend(_ key: DeviceKeySource) throws -> SealedBackend<EtcdStorage> {
            SealedBackend(storage: try cluster.storage(root), deviceKey: key)
        }

        private func lockbox(_ backend: any LockboxBackend) throws -> Lockbox {
            try Lockbox(keyPrefix: "p", backend: backend)
        }

        /// Only the line that makes the backend differs from that on files, in memory and in the Keychain.
        @Test func theSameApplication() throws { try SameApplication.run(on: cluster.backend(root)) }

        @Test func aMovedItemIsAlwaysUnderOneKey() throws {
            let (mover, reader) = (try cluster.backend(root), try cluster.backend(root))
            try lockbox(mover).archiveObject("value", forKey: "a")
            let keys = try ["a", "b"].map { try ItemKey(prefix: "p", key: $0) }
            try inThreads(2) { thread in
                for number in 0..<60 {
                    if thread == 0 {
                        try mover.move(
                            keys[number % 2],
                            to: keys[(number + 1) % 2],
                            policy: .addOnly,
                            now: Date()
                        )
                    } else {
                        let count = try reader.attributes(prefix: "p", now: nil).count
                        #expect(count == 1)
                    }
                }
            }
        }

        @Test func ofManyWhoMoveAnItemOneDoes() throws {
            let backends = try (0..<4).map { _ in try cluster.backend(root) }
            for round in 0..<5 {
                try lockbox(backends[0]).archiveObject(round, forKey: "source")
                let count = Protected(0)
                try inThreads(4) { thread in
                    do {
                        try self.lockbox(backends[thread]).moveObject(
                            forKey: "source",
                            toKey: "\(round) \(thread)"
                        )
                        count.withLock { $0 += 1 }
                    } catch LockboxError.itemNotFound {}
                }
                #expect(count.withLock { $0 } == 1)
            }
            #expect(try lockbox(backends[1]).allKeys().count == 5)
        }

        /// The new device key is handed to all instances beside the old one first.
        @Test func aNewDeviceKeyWhileAnotherInstanceGoesOn() throws {
            let old = DeviceKeySource.bytes([UInt8](repeating: 1, count: 32))
            let new = DeviceKeySource.bytes([UInt8](repeating: 2, count: 32))
            try lockbox(backend(old)).archiveObject("before", forKey: "before")
            let one = try backend(.anyOf([new, old]))
            let other = try backend(.anyOf([old, new]))
            for number in 0..<20 { try lockbox(one).archiveObject(number, forKey: "\(number)") }
            let isDone = Protected(false)
            try inThreads(2) { thread in
                if thread == 0 {
                    defer { isDone.withLock { $0 = true } }
                    #expect(try one.rotateKeys(newDeviceKey: new).hasNewDeviceKey)
                } else {
                    var number = 20
                    while !isDone.withLock({ $0 }) {
                        try self.lockbox(other).archiveObject(number, forKey: "\(number)")
                        #expect(
                            try self.lockbox(other).unarchiveObject(forKey: "\(number - 20)") == number - 20
                        )
                        number += 1
                    }
                }
            }
            try lockbox(other).archiveObject("after", forKey: "after")
            #expect(try lockbox(backend(new)).unarchiveObject(forKey: "after") == "after")
            #expect(try lockbox(backend(new)).unarchiveObject(forKey: "3") == 3)
            expectError(.deviceKeyMismatch) {
                try lockbox(backend(old)).unarchiveObject(Int.self, forKey: "3")
            }
        }

        @Test func aChangedPasscodeLocksTheOtherInstance() throws {
            let (one, other) = (try cluster.backend(root), try cluster.backend(root))
            try one.setPasscode(.value("1234"), strength: .interactive)
            try lockbox(one).archiveObject("old", forKey: "k")
            try other.unlock(.value("1234"))
            #expect(try lockbox(other).unarchiveObject(forKey: "k") == "old")
            try one.changePasscode(to: .value("5678"), strength: .interactive)
            try lockbox(one).archiveObject("new", forKey: "k")
            expectError(.interactionNotAllowed) {
                try lockbox(other).unarchiveObject(String.self, forKey: "k")
            }
            expectError(.wrongPasscode) { try other.unlock(.value("1234")) }
            try other.unlock(.value("5678"))
            #expect(try lockbox(other).unarchiveObject(forKey: "k") == "new")
        }

        @Test func aRemovedSlotOpensNothingAnyMore() throws {
            let (one, other) = (try cluster.backend(root), try cluster.backend(root))
            try one.setPasscode(.value("1234"), strength: .interactive)
            let code = RecoveryCode()
            let source = PasscodeSource.value(code.text)
            try one.addRecoveryCode(code, confirmation: source)
            try lockbox(one).archiveObject("old", forKey: "k")
            try other.unlock(with: .recoveryCode(source))
            #expect(try lockbox(other).unarchiveObject(forKey: "k") == "old")
            let slot = try #require(one.slots.first { $0.kind == .recoveryCode })
            try one.removeSlot(slot.id)
            try lockbox(one).archiveObject("new", forKey: "k")
            expectError(.interactionNotAllowed) {
                try lockbox(other).unarchiveObject(String.self, forKey: "k")
            }
            expectError(.slotNotFound) { try cluster.backend(root).unlock(with: .recoveryCode(source)) }
        }

        /// The kernel's keyring is this machine's. What it holds opens the store in the cluster for this user's processes.
        @Test func unlockedForTheUser() throws {
            let one = try cluster.backend(root)
            try one.setPasscode(.value("1234"), strength: .interactive)
            try lockbox(one).archiveObject("value", forKey: "k")
            guard try one.unlock(.value("1234"), scope: .user) == .user else { return }
            defer { try? one.lock(includingAfterFirstUnlock: true) }
            #expect(try lockbox(cluster.backend(root)).unarchiveObject(forKey: "k") == "value")
            // Another store in the same cluster is another one.
            let otherRoot = EtcdCluster.root()
            let second = try cluster.backend(otherRoot)
            try second.setPasscode(.value("1234"), strength: .interactive)
            try second.lock()
            #expect(try cluster.backend(otherRoot).lockState != .unlocked)
            try one.lock(includingAfterFirstUnlock: true)
            expectError(.interactionNotAllowed) {
                try lockbox(cluster.backend(root)).unarchiveObject(String.self, forKey: "k")
            }
        }

        @Test func fromTheClusterToFilesAndBack() throws {
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let shared = try cluster.backend(root)
            for number in 0..<200 {
                try lockbox(shared).archiveObject(number, forKey: "\(number)", label: .set("L"))
            }
            let own = EncryptedFileBackend(storage: FileStorage(directory: "\(folder)/store"))
            #expect(try shared.copyItems(to: own).transferredKeys.count == 200)
            try own.exportBackup(
                to: "\(folder)/backup",
                passphrase: .value("open sesame"),
                strength: .interactive
            )
            let third = try SealedBackend(
                storage: cluster.storage(EtcdCluster.root()),
                deviceKey: .bytes(EtcdCluster.deviceKey)
            )
            let report = try third.importBackup(from: "\(folder)/backup", passphrase: .value("open sesame"))
            #expect(report.importedCount == 200)
            let copies = try lockbox(third).list().items
            #expect(copies.count == 200 && copies.values.allSatisfy { $0.label == "L" })
            #expect(try lockbox(third).unarchiveObject(forKey: "123") == 123)
        }

        // MARK: Compaction

        @Test func afterACompactionOldValuesCannotBeRead() throws {
            let storage = try cluster.storage(root)
            let backend = SealedBackend(storage: storage, deviceKey: .bytes(EtcdCluster.deviceKey))
            try lockbox(backend).archiveObject("old", forKey: "k")
            let record = try #require(try records(storage).first)
            let before = try storage.nextRevision() - 1
            let stale = try value(storage, record, at: before)
            try lockbox(backend).archiveObject("new", forKey: "k")
            #expect(try value(storage, record, at: before) == stale, "the control")
            try storage.compact()
            #expect(throws: (any Error).self) { try value(storage, record, at: before) }
            #expect(try lockbox(backend).unarchiveObject(forKey: "k") == "new")
            try storage.compact()
            try inThreads(4) { _ in try storage.compact() }
            try lockbox(backend).archiveObject("newer", forKey: "k")
        }

        private func records(_ storage: EtcdStorage) throws -> [Data] {
            let path = "\(root)/i"
            let request = RangeRequest(Data("\(path)/".utf8), to: EtcdStorage.end(of: path))
            let answer: RangeAnswer = try storage.gateway.call(
                "/v3/kv/range",
                request,
                until: storage.gateway.deadline
            ).answer
            return answer.found.map(\.key)
        }

        private func value(_ storage: EtcdStorage, _ key: Data, at revision: UInt64) throws -> Data? {
            var request = RangeRequest(key)
            request.revision = revision
            let answer: RangeAnswer = try storage.gateway.call(
                "/v3/kv/range",
                request,
                until: storage.gateway.deadline
            ).answer
            return answer.found.first?.value
        }
    }
#endif
