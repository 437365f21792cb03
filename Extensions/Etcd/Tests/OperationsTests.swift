#if Etcd
    import Foundation
    import Testing

    import Lockbox
    @testable import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// Operations on a whole store, while another instance on another machine goes on with it.
    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct OperationsTests {
        private let cluster: EtcdCluster
        private let root = EtcdCluster.root()
        private let folder =
            "\(NSTemporaryDirectory())/lockbox-etcd-operations-\(UInt64.random(in: .min ... .max))"

        init() throws { cluster = try EtcdCluster.shared.get() }

        private func backend(_ key: DeviceKeySource) throws -> SealedBackend {
            SealedBackend(storage: try cluster.storage(root), deviceKey: key)
        }

        /// Only the line that makes the backend differs from that on files, in memory and in the Keychain.
        @Test func theSameApplication() throws { try SameApplication.run(on: cluster.backend(root)) }

        /// The new device key is handed to all instances beside the old one first.
        @Test func aNewDeviceKeyWhileAnotherInstanceGoesOn() throws {
            let old = DeviceKeySource.closure { [UInt8](repeating: 1, count: 32) }
            let new = DeviceKeySource.closure { [UInt8](repeating: 2, count: 32) }
            try backend(old).lockbox().archiveObject("before", forKey: "before")
            let one = try backend(.anyOf([new, old]))
            let other = try backend(.anyOf([old, new]))
            for number in 0..<20 { try one.lockbox().archiveObject(number, forKey: "\(number)") }
            let isDone = Protected(false)
            try inThreads(2) { thread in
                if thread == 0 {
                    defer { isDone.withLock { $0 = true } }
                    #expect(try one.rotateKeys(newDeviceKey: new).hasNewDeviceKey)
                } else {
                    var number = 20
                    while !isDone.withLock({ $0 }) {
                        try other.lockbox().archiveObject(number, forKey: "\(number)")
                        #expect(
                            try other.lockbox().unarchiveObject(forKey: "\(number - 20)") == number - 20
                        )
                        number += 1
                    }
                }
            }
            try other.lockbox().archiveObject("after", forKey: "after")
            #expect(try backend(new).lockbox().unarchiveObject(forKey: "after") == "after")
            #expect(try backend(new).lockbox().unarchiveObject(forKey: "3") == 3)
            expectError(.deviceKeyMismatch) {
                try backend(old).lockbox().unarchiveObject(Int.self, forKey: "3")
            }
        }

        @Test func aChangedPasscodeLocksTheOtherInstance() throws {
            let (one, other) = (try cluster.backend(root), try cluster.backend(root))
            try one.setUp(items: ["k": .whenUnlocked])
            try other.unlock(.value("1234"))
            #expect(try other.lockbox().unarchiveObject(forKey: "k") == "old")
            try one.changePasscode(to: .value("5678"), strength: .interactive)
            try one.lockbox().archiveObject("new", forKey: "k")
            expectError(.interactionNotAllowed) {
                try other.lockbox().unarchiveObject(String.self, forKey: "k")
            }
            expectError(.wrongPasscode) { try other.unlock(.value("1234")) }
            try other.unlock(.value("5678"))
            #expect(try other.lockbox().unarchiveObject(forKey: "k") == "new")
        }

        @Test func aRemovedSlotOpensNothingAnyMore() throws {
            let (one, other) = (try cluster.backend(root), try cluster.backend(root))
            let code = RecoveryCode()
            let source = PasscodeSource.value(code.text)
            try one.setUp(recovery: code, items: ["k": .whenUnlocked])
            try other.unlock(with: .recoveryCode(source))
            #expect(try other.lockbox().unarchiveObject(forKey: "k") == "old")
            let slot = try #require(one.status()?.slots.first { $0.kind == .recoveryCode })
            try one.removeSlot(slot.id)
            try one.lockbox().archiveObject("new", forKey: "k")
            expectError(.interactionNotAllowed) {
                try other.lockbox().unarchiveObject(String.self, forKey: "k")
            }
            expectError(.slotNotFound) { try cluster.backend(root).unlock(with: .recoveryCode(source)) }
        }

        /// The kernel's keyring is this machine's. Its keys open the store in the cluster for this user's processes.
        @Test(.needsKernelKeyring) func unlockedForTheUser() throws {
            let one = try cluster.backend(root).setUp(items: ["k": .whenUnlocked], scope: .user)
            defer { try? one.lock(includingAfterFirstUnlock: true) }
            #expect(try cluster.backend(root).lockbox().unarchiveObject(forKey: "k") == "old")
            // Another store in the same cluster is another one.
            let otherRoot = EtcdCluster.root()
            try cluster.backend(otherRoot).setUp().lock()
            #expect(try cluster.backend(otherRoot).lockState != .unlocked)
            try one.lock(includingAfterFirstUnlock: true)
            expectError(.interactionNotAllowed) {
                try cluster.backend(root).lockbox().unarchiveObject(String.self, forKey: "k")
            }
        }

        @Test func fromTheClusterToFilesAndBack() throws {
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let shared = try cluster.backend(root)
            for number in 0..<200 {
                try shared.lockbox().archiveObject(
                    number,
                    forKey: "\(number)",
                    options: WriteOptions(label: .set("L"))
                )
            }
            let own = EncryptedFileBackend(storage: FileStorage(directory: "\(folder)/store"))
            #expect(try shared.copyItems(to: own).transferredKeys.count == 200)
            try own.exportBackup(
                to: "\(folder)/backup",
                for: .passphrase(.value("open sesame"), workFactor: 10)
            )
            let third = try SealedBackend(
                storage: cluster.storage(EtcdCluster.root()),
                deviceKey: .closure { EtcdCluster.deviceKey }
            )
            let report = try third.importBackup(
                from: "\(folder)/backup",
                with: .passphrase(.value("open sesame"))
            )
            #expect(report.importedCount == 200)
            let copies = try third.lockbox().list().items
            #expect(copies.count == 200 && copies.values.allSatisfy { $0.label == "L" })
            #expect(try third.lockbox().unarchiveObject(forKey: "123") == 123)
        }

        // MARK: Compaction

        @Test func afterACompactionOldValuesCannotBeRead() throws {
            let storage = try cluster.storage(root)
            let backend = SealedBackend(storage: storage, deviceKey: .closure { EtcdCluster.deviceKey })
            try backend.lockbox().archiveObject("old", forKey: "k")
            let record = try #require(try records(storage).first)
            let before = try storage.nextRevision() - 1
            let stale = try value(storage, record, at: before)
            try backend.lockbox().archiveObject("new", forKey: "k")
            #expect(try value(storage, record, at: before) == stale, "the control")
            try storage.compact()
            #expect(throws: (any Error).self) { try value(storage, record, at: before) }
            #expect(try backend.lockbox().unarchiveObject(forKey: "k") == "new")
            try storage.compact()
            try inThreads(4) { _ in try storage.compact() }
            try backend.lockbox().archiveObject("newer", forKey: "k")
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
