import Foundation
import Testing

@testable import LockboxAge
import LockboxBackup
import Lockbox
@testable import LockboxCore
import LockboxPlatform
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Single rules of the keybag, its slots, and what the kernel holds of them.
@Suite(.timeLimit(.minutes(10))) struct KeyDetailTests {
    private let store: TestStore
    private let code = RecoveryCode()

    init() throws { store = try TestStore() }

    /// A method whose secret is given, and that counts how often it is asked for a new one.
    private struct GivenSecret: UnlockMethod {
        let kind = SlotKind.key
        var bytes = [UInt8](repeating: 7, count: 32)
        var asked = Protected(0)

        func enroll(salt: [UInt8]) -> SlotEnrollment {
            asked.withLock { $0 += 1 }
            return SlotEnrollment(parameters: [], secret: bytes)
        }

        func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) -> [UInt8] { bytes }
    }

    /// An open store that a recovery code opens, because it costs no Argon2id.
    @discardableResult
    private func backendWithCode() throws -> EncryptedFileBackend {
        try store.backend().setUp(passcode: nil, recovery: code, items: ["k": .whenUnlocked])
    }

    private func method(_ code: RecoveryCode) -> SecretUnlock { .recoveryCode(.value(code.text)) }

    // MARK: Epochs

    /// Whoever had the unlock keys, from the kernel or from memory, can open nothing with them any more.
    @Test(arguments: ["set", "add", "remove", "rotate"])
    func everyChangeMakesNewUnlockKeysAndADeviceKey(_ change: String) throws {
        let backend = try backendWithCode()
        let opened = try backend.keyStore.current()
        let old = opened.unlockKeys
        #expect(try opened.keybag.open(old).keys.count == opened.keybag.keyIDs.count, "the control")
        switch change {
        case "set": try backend.setPasscode(.value("1234"), strength: .interactive)
        case "add": try backend.addSlot(GivenSecret(), label: "")
        case "remove":
            try backend.addRecoveryCode(code, confirmation: .value(code.text))
            try backend.removeSlot(#require(try backend.slots.first).id)
        default: try backend.rotateKeys()
        }
        let keybag = try store.openedKeybag()
        #expect(!keybag.deviceKey.isEqual(to: opened.keybag.deviceKey))
        #expect(old.count == UnlockLevel.allCases.count)
        for (level, key) in old {
            #expect(throws: RecordError.notAuthentic, "\(level)") { try keybag.open([level: key]) }
        }
    }

    /// A power cut after the first of the two keybags leaves the present epoch, and after the second the next one.
    @Test func theNextKeysAreThereBeforeTheyAreUsed() throws {
        let backend = try backendWithCode()
        let opened = try backend.keyStore.current()
        var next = try KeybagRewrite(after: opened)
        try next.contents.beginEpoch()
        let stages = next.stages(after: opened.keybag)
        #expect(stages.map(\.epoch) == [opened.keybag.epoch, opened.keybag.epoch + 1])
        #expect(stages.map(\.generation) == [opened.keybag.generation + 1, opened.keybag.generation + 2])
        for stage in stages { #expect(stage.keys.map(\.id) == next.contents.keys.map(\.id)) }
    }

    @Test func aKeybagHasNoMoreKeysThanCanBeRead() throws {
        var contents = try KeybagContents()
        var epochs = 0
        let error = lockboxError {
            while epochs < Keybag.maximumKeys {
                var next = contents
                try next.beginEpoch()
                (contents, epochs) = (next, epochs + 1)
            }
        }
        #expect(error?.code == .slotRefused)
        let deviceKey = try SecretKey.random()
        #expect(
            try Keybag.read(contents.encoded(deviceKey: deviceKey), [deviceKey]).epochs.count == epochs + 1
        )
    }

    /// The items are resealed when the keybag has no more room.
    @Test func manyChangesThatLeaveTheItemsForLater() throws {
        let backend = try backendWithCode()
        for number in 0..<20 {
            let code = RecoveryCode()
            try backend.addRecoveryCode(code, confirmation: .value(code.text), resealing: false)
            try backend.removeSlot(#require(try backend.slots.last).id, resealing: false)
            #expect(try store.openedKeybag().epochs.count <= Keybag.maximumEpochs + 1, "round \(number)")
        }
        #expect(try backend.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    /// Others begin epochs until the keybag is full, before any lock of a rotation that has not begun its own.
    @Test func roomThatOthersTakeDuringARotation() throws {
        try store.lockbox().archiveObject("v", forKey: "k")
        while try store.openedKeybag().epochs.count < Keybag.maximumEpochs - 1 {
            _ = try store.backend().keyChanges.rotateKeys(.keep)
        }
        let isTooLate = Protected(false)
        let timesTaken = Protected(0)
        var number = 0
        while !isTooLate.withLock({ $0 }) {
            number += 1
            let copy = try TestStore(copying: store)
            let taking = Interruption(at: number) {
                let epochs = try? copy.openedKeybag().epochs.count
                isTooLate.withLock { $0 = epochs != Keybag.maximumEpochs - 1 }
                let other = copy.backend(lockTimeout: .milliseconds(10))
                var isTaken = false
                while (try? other.keyChanges.rotateKeys(.keep)) != nil { isTaken = true }
                if isTaken { timesTaken.withLock { $0 += 1 } }
            }
            // While a program has the lock, no other one changes the keys.
            let backend = copy.backend(
                .before(.flock) {
                    taking.call(); return false
                }
            )
            _ = try backend.lockState
            taking.raise()
            #expect(try backend.rotateKeys().isComplete, "call \(number)")
            #expect(try copy.backend().lockbox().unarchiveObject(forKey: "k") == "v", "call \(number)")
            try #require(taking.hasHappened)
        }
        #expect(timesTaken.withLock { $0 } > 0)
    }

    // MARK: One look

    /// Counts how often the keybag is read.
    private struct CountingStorage: WrappingStorage {
        let target = InMemoryStorage()
        let reads = Protected(0)

        func begin(_ call: StorageCall) {
            if case .read(let records) = call, records.contains(RecordName.keybag) {
                reads.withLock { $0 += 1 }
            }
        }
    }

    @Test func eachLookAtAStoreReadsTheKeybagOnce() throws {
        let (storage, key) = (CountingStorage(), try SecretKey.random())
        func process() -> SealedBackend {
            let source = DeviceKeySource.closure { key.withBytes { Array($0) } }
            return SealedBackend(KeyStore(storage: storage, deviceKey: source))
        }
        let code = code
        try process().addRecoveryCode(code, confirmation: .value(code.text))
        func expectOneRead<Result>(_ body: () throws -> Result) rethrows -> Result {
            storage.reads.withLock { $0 = 0 }
            defer { #expect(storage.reads.withLock { $0 } == 1) }
            return try body()
        }
        #expect(try expectOneRead { try process().lockState } == .beforeFirstUnlock)
        let backend = process()
        for _ in 0..<2 {
            let status = try expectOneRead { try backend.status() }
            #expect(status?.slots.count == 1 && status?.lockState == .beforeFirstUnlock)
        }
        let status = try backend.status()
        let scope = try expectOneRead {
            try backend.unlock(with: method(code), scope: .process, timeout: nil, after: status)
        }
        #expect(scope == .process)
        #expect(try expectOneRead { try backend.status() }?.unlockScope == .process)
    }

    /// The passcode was changed between the two.
    @Test(.needsKernelKeyring, arguments: UnlockScope.allCases)
    func anUnlockAfterAnOldLookNeedsTheNewPasscode(_ scope: UnlockScope) throws {
        let other = try store.backend().setUp(items: .everyClass)
        defer { store.lockForEverybody() }
        let backend = store.backend()
        let status = try backend.status()
        try other.changePasscode(to: .value("5678"), strength: .interactive)
        expectError(.wrongPasscode) {
            try backend.unlock(with: .passcode(.value("1234")), scope: scope, timeout: nil, after: status)
        }
        #expect(try backend.lockState == .beforeFirstUnlock)
    }

    // MARK: Slots

    @Test func theSameSecretMakesOtherKeysInEachSlot() throws {
        let backend = try backendWithCode()
        for _ in 0..<2 { try backend.addSlot(GivenSecret(), label: "") }
        let slots = try backend.keyStore.own().keybag.slots
        #expect(slots.count == 3)
        #expect(Set(slots.map(\.id)).count == 3)
        #expect(Set(slots.map(\.salt)).count == 3, "guesses cannot be prepared")
        #expect(Set(slots.map { $0.grants[0].publicKey }).count == 3)
    }

    @Test(arguments: [0, 31, 65]) func aSecretOfAnotherLengthIsRefused(_ count: Int) throws {
        let backend = try backendWithCode()
        let method = GivenSecret(bytes: [UInt8](repeating: 7, count: count))
        expectError(.invalidPasscode) { try backend.addSlot(method, label: "") }
        #expect(try backend.slots.count == 1)
    }

    @Test func nobodyIsAskedForASecretInVain() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let method = GivenSecret()
        expectError(.slotRefused, "there is no recovery code") { try backend.addSlot(method, label: "") }
        try backend.addRecoveryCode(code, confirmation: .value(code.text))
        try backend.lock()
        expectError(.interactionNotAllowed) { try backend.addSlot(method, label: "") }
        let passcode = PasscodeSource.closure {
            method.asked.withLock { $0 += 1 }
            return Array("5678".utf8)
        }
        expectError(.interactionNotAllowed) { try backend.changePasscode(to: passcode) }
        #expect(method.asked.withLock { $0 } == 0)
        try backend.unlock(with: self.method(code))
        try backend.addSlot(method, label: "")
        #expect(method.asked.withLock { $0 } == 1, "the control")
    }

    @Test(arguments: UnlockScope.allCases) func aPasscodeRemovedDuringAnUnlock(_ scope: UnlockScope) throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let id = try backend.keyStore.currentKeyring().storeID
        defer { _ = try? UserUnlock(kernel: KernelKeyring()).remove(id) }
        let passcode = PasscodeSource.closure {
            try backend.removePasscode()
            return Array("1234".utf8)
        }
        #expect(throws: LockboxError.passcodeNotSet) { try store.backend().unlock(passcode, scope: scope) }
        #expect(try !UserUnlock(kernel: KernelKeyring()).remove(id), "there is nothing in the kernel")
    }

    // MARK: Forgers with only the device key

    /// Of the header and of all that the device key opens. Level 2 opens before the vault of level 1 and the signature are looked at.
    @Test func everyChangedByteOfTheKeybagIsNoticedAtTheUnlock() throws {
        let owner = try backendWithCode()
        try owner.addSlot(GivenSecret(), label: "a service")
        let (record, device, keybag) = (
            try readBytes(store.keybag), try store.deviceKeys(), try store.openedKeybag()
        )
        let signature =
            record.count - (SealedBox.overhead - SealedBox.prefixLength) - SigningKey.signatureLength
        let vaults = Keybag.vaultLengths(keybag.keyIDs, keybag.slots).reduce(0) { $0 + $1.1 }
        for (method, end) in [
            (method(code), signature + SigningKey.signatureLength), (GivenSecret(), signature - vaults),
        ] as [(any UnlockMethod, Int)] {
            let keys = try owner.keyStore.slots.keys(method, of: keybag)
            func unlocks(changing offset: Int?) throws -> Bool {
                var record = record
                _ = record.withUnsafeMutableBytes { KeybagHeader.openBox($0, device[0]) }  // in place
                if let offset { record[offset] ^= 1 }
                record.withUnsafeMutableBytes { KeybagHeader.seal($0, device[0]) }
                guard let changed = try? Keybag.read(record, device) else { return false }
                return try !changed.open(changed.unlockKeys(with: keys)).unlockKeys.isEmpty
            }
            #expect(try unlocks(changing: nil), "the control")
            // The generation is in the header; the box begins with its nonce.
            let start = KeybagHeader.length + SealedBox.prefixLength - Interruption.start
            for offset in Array(8..<16) + stride(from: start, to: end, by: Interruption.stride) {
                let isUnlocked = try? unlocks(changing: offset)
                #expect(isUnlocked != true, "byte \(offset)")
            }
        }
    }
    /// Made of a forged item of a lower class, it would pass for one that only the owner can have written.
    @Test func theClassOfAForgedItemCannotBeRaised() throws {
        try store.lockbox().archiveObject("forged", forKey: "k", accessibility: .always)
        let required = store.backend(requires: .init(minimumAccessibility: .afterFirstUnlock))
        let before = try store.snapshot()
        expectError(.requirementNotMet) {
            try required.lockbox().setAttributes(WriteOptions(accessibility: .whenUnlocked), forKey: "k")
        }
        #expect(try store.snapshot() == before)
    }

    @Test func theStoresOwnRecordsMayHaveAnyClass() throws {
        let required = store.backend(requires: .init(minimumAccessibility: .whenUnlocked))
        try required.checkAccess(.always, now: Date())
        expectError(.requirementNotMet, "the control") {
            try required.lockbox().archiveObject("v", forKey: "k", accessibility: .always)
        }
    }

    // MARK: The kernel

    @Test(.needsKernelKeyring)
    func aCopyOfTheKernelsKeyDoesNotOpen() throws {
        try store.backend().setUp(scope: .user)
        defer { store.lockForEverybody() }
        let (kernel, name) = (KernelKeyring(), try store.kernelName(of: .unlocked))
        let serial = try #require(kernel.serial(of: name))
        let record = try #require(kernel.read(serial, maximum: SharedUnlock.length) { [UInt8]($0) })
        #expect(try store.backend().lockState == .unlocked, "the control")
        try kernel.remove(name)
        #expect(kernel.add(name, record, seconds: 60))
        #expect(try store.backend().lockState == .locked)
    }

    /// Should the kernel still have it.
    @Test func aRecordIsOverAtItsDeadline() throws {
        let (id, device) = (StoreID(repeating: 3), try SecretKey.random())
        let record = SharedUnlock(level: .unlocked, deadline: 100, key: try .random())
        let bytes = record.encoded(7, id, device)
        for (now, isOpen) in [(99, true), (100, false), (101, false)] as [(UInt64, Bool)] {
            var copy = bytes
            let opened = try copy.withUnsafeMutableBytes {
                try SharedUnlock($0, .unlocked, 7, id, device, now: now)
            }
            #expect((opened != nil) == isOpen, "at \(now)")
        }
    }

    /// Whoever got the keys from the kernel does not keep them in a way that another process's lock cannot end.
    @Test(.needsKernelKeyring)
    func whoChangesThePasscodeWithTheKernelsKeysIsLockedByOthers() throws {
        try store.backend().setUp(items: .everyClass, scope: .user)
        defer { store.lockForEverybody() }
        let own = store.backend()
        try own.changePasscode(to: .value("5678"), strength: .interactive)
        #expect(try own.status()?.unlockScope == .user)
        try store.backend().lock()
        #expect(try own.lockState == .locked)
        expectError(.interactionNotAllowed) { try own.lockbox().unarchiveObject(String.self, forKey: "ak") }
    }

    // MARK: Files

    @Test(arguments: [false, true]) func aBackupHasNoRecordOfTheStoresOwn(_ isReserved: Bool) throws {
        let item = try StoredItem(
            key: ItemKey(storedPrefix: isReserved ? "\0migration\0x" : "x", key: "k"),
            value: ArchivedValue(data: Data("v".utf8), format: .data),
            modified: Date()
        )
        let path = Path.parent(of: store.directory) + "/backup"
        let age = try AgeEncryptor(to: [.passphrase(WipedBytes("p".utf8), workFactor: 10)])
        var backup = BackupEncryptor(age)
        try overwrite(path, backup.begin(nil, Date()) + backup.encrypt(item) + backup.finish())
        let error = lockboxError {
            try store.backend().importBackup(from: path, with: .passphrase(.value("p")))
        }
        #expect(error?.code == (isReserved ? .corrupt : nil))
        #expect(try store.backend().value(for: item.key, now: nil) == (isReserved ? nil : item.value))
    }

    /// A lock that was taken before its file was replaced is of a file that nobody else asks for. It is no longer in its owner's
    /// own way.
    @Test func aLockIsOfTheFileThatIsThereNow() throws {
        let storage = store.storage(lockTimeout: .milliseconds(50))
        let record = RecordName(namespace: "a", name: "one")
        // A store is known by its keybag.
        for name in [RecordName(name: "keybag"), record] {
            _ = try storage.commit([.put(name, [1])], expecting: [:])
        }
        let lock = try storage.lock(["a"])
        defer { lock.release() }
        let path = Path.parent(of: storage.location(of: record)) + "/lock"
        func replaceFile() throws {
            unlink(path)
            try overwrite(path, [])
        }
        try replaceFile()
        for _ in 0..<2 {
            guard case .conflict = try lock.commit([.put(record, [2])], expecting: [:]) else {
                Issue.record("no conflict")
                return
            }
        }
        func commit() throws -> CommitOutcome { try storage.commit([.put(record, [2])], expecting: [:]) }
        try store.storage().holdingLock(of: "a") { #expect(lockboxError(commit)?.code == .lockTimeout) }
        #expect(try storage.read([record], maximum: 100)[record]?.bytes == [1])
        guard case .committed = try commit() else {
            Issue.record("it was not committed")
            return
        }
        let another = try storage.lockIfSupported(["a"])
        defer { another?.release() }
        try replaceFile()
        expectError(.conflict) { _ = try another.quarantine(record) }
        let last = try storage.lockIfSupported(["a"])
        defer { last?.release() }
        _ = try last.quarantine(record)
        #expect(try storage.read([record], maximum: 100)[record] == nil)
    }
}
