import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Several ways to unlock one store.
@Suite struct SlotTests {
    private let store: TestStore
    private let code = RecoveryCode()

    init() throws { store = try TestStore() }

    private static let key = [UInt8](repeating: 7, count: 40)

    /// A store with a passcode and a recovery code.
    @discardableResult
    private func backendWithRecovery() throws -> EncryptedFileBackend {
        try store.backend().setUp(recovery: code, items: .everyClass)
    }

    private func readable(_ method: any UnlockMethod) throws -> Set<Accessibility> {
        let backend = store.backend()
        try backend.unlock(with: method)
        return try backend.readable()
    }

    @Test func everySlotOpensWhatItIsMadeFor() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        try backend.addRecoveryCode(code, confirmation: .value(code.text), label: "in the safe")
        try backend.addSlot(.key(.bytes(Self.key)), label: "the service")
        #expect(try readable(.passcode(.value("1234"))) == .everyClass)
        #expect(try readable(.recoveryCode(.value(code.text.lowercased()))) == .everyClass)
        #expect(try readable(.key(.bytes(Self.key))) == .afterFirstUnlock)
        let service = store.backend()
        try service.unlock(with: .key(.bytes(Self.key)))
        #expect(try service.lockState == .locked)
        expectError(.interactionNotAllowed, "it does not open everything") { try service.rotateKeys() }
        let slots = try service.slots
        #expect(slots.map(\.kind) == [.passcode, .recoveryCode, .key])
        #expect(slots.map(\.label) == ["", "in the safe", "the service"])
        #expect(slots.map(\.opensAllClasses) == [true, true, false])
        try backend.addSlot(.key(.bytes(Self.key + [1])), label: "", opensAllClasses: true)
        #expect(try readable(.key(.bytes(Self.key + [1]))) == .everyClass)
    }

    /// The key of a slot that every program has which can open the store would be none.
    @Test func theDeviceKeyIsNoSlotsKey() throws {
        let file = Path.parent(of: store.directory) + "/key"
        try overwrite(file, Self.key)
        chmod(file, 0o600)
        let backend = try backendWithRecovery()
        let stored = try store.deviceKeys()[0].withBytes(Array.init)
        for key in [DeviceKeySource.file(store.deviceKey), .bytes(stored)] {
            expectError(.slotRefused) { try backend.addSlot(.key(key), label: "") }
        }
        let reads = Protected(0)
        let key = DeviceKeySource.closure {
            reads.withLock { $0 += 1 }
            return Self.key
        }
        try backend.addSlot(.key(key), label: "")
        #expect(reads.withLock { $0 } == 1, "a pipe can be read once")
        expectError(.invalidDeviceKey) { try backend.rotateKeys(newDeviceKey: .file(file)) }
        let slot = try #require(try backend.slots.first { $0.kind == .key })
        try backend.removeSlot(slot.id)
        try backend.rotateKeys(newDeviceKey: .file(file))
        for key in [DeviceKeySource.file(file), .bytes(Self.key)] {
            expectError(.slotRefused) { try backend.addSlot(.key(key), label: "") }
        }
        #expect(try backend.slots.map(\.kind) == [.passcode, .recoveryCode])
    }

    /// It could be forged: a service's slot opens one of the two vaults, and can seal it again.
    @Test func aServicesGenerationIsNotRemembered() throws {
        let backend = try backendWithRecovery()
        try backend.addSlot(.key(.bytes(Self.key)), label: "")
        let memory = StoreMemory(store.memory.path + "-of-another-user", of: store.directory)
        let service = store.backend(memory: memory)
        try service.unlock(with: .key(.bytes(Self.key)))
        let keyring = try service.keyStore.currentKeyring()
        #expect(memory.entries.isEmpty)
        try store.backend(memory: memory).unlock(.value("1234"))
        #expect(memory.entry(of: keyring.storeID)?.numbers.generation == keyring.generation)
    }

    @Test func wrongSecretsAndMissingSlots() throws {
        let backend = try backendWithRecovery()
        let locked = store.backend()
        #expect(throws: LockboxError.wrongPasscode) {
            try locked.unlock(with: .recoveryCode(.value(RecoveryCode().text)))
        }
        expectError(.invalidPasscode) { try locked.unlock(with: .recoveryCode(.value("1234"))) }
        expectError(.slotNotFound) { try locked.unlock(with: .key(.bytes(Self.key))) }
        expectError(.slotNotFound) { try backend.removeSlot("00") }
        try backend.addSlot(.key(.bytes(Self.key)), label: "")
        #expect(throws: LockboxError.wrongPasscode) { try locked.unlock(with: .key(.bytes(Self.key + [0]))) }
        expectError(.invalidDeviceKey) { try locked.unlock(with: .key(.stored)) }
        #expect(throws: LockboxError.wrongPasscode) {
            try backend.addRecoveryCode(RecoveryCode(), confirmation: .value(code.text))
        }
        #expect(try backend.slots.count == 3)
    }

    /// A pipe can be read once, and a person is asked once.
    @Test func aCodeIsAskedForOnce() throws {
        let backend = try backendWithRecovery()
        let second = RecoveryCode()
        try backend.addRecoveryCode(second, confirmation: .value(second.text))
        let asked = Protected(0)
        let source = PasscodeSource.closure {
            asked.withLock { $0 += 1 }
            return Array((asked.withLock { $0 } == 1 ? second.text : "").utf8)
        }
        try store.backend().unlock(with: .recoveryCode(source))
        #expect(asked.withLock { $0 } == 1)
    }

    /// Before anything else there is a recovery code, and it stays as long as something needs it.
    @Test func nobodyIsLockedOut() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        expectError(.slotRefused) { try backend.addSlot(.key(.bytes(Self.key)), label: "") }
        expectError(.slotRefused) { try store.backend().addSlot(.passcode(.value("x")), label: "") }
        let code = RecoveryCode()
        expectError(.slotRefused, "not typed back") {
            try backend.addSlot(.recoveryCode(.value(code.text)), label: "")
        }
        try backend.addRecoveryCode(code, confirmation: .value(code.text))
        expectError(.slotRefused, "a store has one passcode") {
            try backend.addSlot(.passcode(.value("x")), label: "")
        }
        try backend.addSlot(.key(.bytes(Self.key)), label: "")
        let recovery = try #require(try backend.slots.first { $0.kind == .recoveryCode })
        expectError(.slotRefused) { try backend.removeSlot(recovery.id) }
        let other = RecoveryCode()
        try backend.addRecoveryCode(other, confirmation: .value(other.text))
        try backend.removeSlot(recovery.id)
        #expect(throws: LockboxError.wrongPasscode) {
            try store.backend().unlock(with: .recoveryCode(.value(code.text)))
        }
        try backend.removePasscode()
        #expect(try store.backend().lockState == .beforeFirstUnlock, "there are other slots")
        try store.backend().unlock(with: .recoveryCode(.value(other.text)))
    }

    @Test func theStatusOfAStore() throws {
        #expect(try store.backend().status() == nil)
        let backend = try backendWithRecovery()
        let status = try #require(try backend.status())
        #expect(status.slots.map(\.kind) == [.passcode, .recoveryCode])
        #expect(status.lockState == .unlocked)
        #expect(status.unlockScope == .process && status.unlockedUntil == nil)
        #expect(status.olderEpochs == [])
        try backend.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        let later = try #require(try store.backend().status())
        #expect(later.epoch == status.epoch + 1 && later.olderEpochs == [status.epoch])
        #expect(later.generation > status.generation)
        #expect(later.identity == status.identity && later.unlockScope == nil)
    }

    @Test(.needsKernelKeyring)
    func theStatusSaysWhenAnUnlockEnds() throws {
        try store.backend().setUp(items: .everyClass)
        defer { store.lockForEverybody() }
        try store.backend().unlock(.value("1234"), scope: .user, timeout: .seconds(1000))
        let until = try #require(try store.backend().status()?.unlockedUntil)
        #expect((900...1001).contains(until.timeIntervalSinceNow))
        try store.backend().unlock(.value("1234"), scope: .user)
        #expect(try store.backend().status()?.unlockedUntil == nil)
    }

    @Test func aForgottenPasscodeIsReplaced() throws {
        try backendWithRecovery()
        let backend = store.backend()
        try backend.unlock(with: .recoveryCode(.value(code.text)))
        try backend.changePasscode(to: .value("new"), strength: .interactive)
        #expect(throws: LockboxError.wrongPasscode) { try store.backend().unlock(.value("1234")) }
        try store.backend().unlock(.value("new"))
        #expect(try readable(.recoveryCode(.value(code.text))) == .everyClass)
    }

    @Test func theCurrentPasscodeIsAskedFor() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        #expect(throws: LockboxError.wrongPasscode) {
            try backend.changePasscode(from: .value("12345"), to: .value("x"), strength: .interactive)
        }
        #expect(throws: LockboxError.wrongPasscode) { try backend.removePasscode(.value("12345")) }
        try backend.changePasscode(from: .value("1234"), to: .value("x"), strength: .interactive)
        try backend.removePasscode(.value("x"))
        #expect(try backend.lockState == .unprotected)
    }

    @Test func aSlotIsNamedIfItIsOlderThanTheLastRevocation() throws {
        let owner = try backendWithRecovery()
        func older() throws -> [SlotKind] { try owner.slots.filter(\.isOlderThanRevocation).map(\.kind) }
        try owner.rotateKeys()
        #expect(try older() == [], "nobody's secret was taken away")
        try owner.changePasscode(to: .value("5678"), strength: .interactive)
        #expect(try older() == [.recoveryCode])
        let (old, new) = (try #require(try owner.slots.last), RecoveryCode())
        try owner.addRecoveryCode(new, confirmation: .value(new.text))
        #expect(try owner.slots.map(\.isOlderThanRevocation) == [false, true, false])
        try owner.removeSlot(old.id)
        #expect(try older() == [], "that it was replaced takes nothing away from the others")
        try owner.removeSlot(#require(try owner.slots.last).id)
        #expect(try older() == [.passcode])
    }

    @Test func aStoreHasAtMost32Slots() throws {
        let backend = store.backend()
        for number in 0..<Keybag.maximumSlots {
            let code = RecoveryCode()
            try backend.addRecoveryCode(code, confirmation: .value(code.text), label: "\(number)")
        }
        let code = RecoveryCode()
        expectError(.slotRefused) { try backend.addRecoveryCode(code, confirmation: .value(code.text)) }
        #expect(try store.backend().slots.count == Keybag.maximumSlots)
        #expect(try Data(readBytes(store.keybag)).count < KeybagHeader.maximumRecordLength)
        let long = String(repeating: "x", count: 257)
        expectError(.slotRefused) {
            try backend.addRecoveryCode(code, confirmation: .value(code.text), label: long)
        }
    }

    /// Also after others have changed its keys.
    @Test func whoMakesTheFirstSlotHasUnlockedTheStore() throws {
        let (maker, other, code) = (store.backend(), store.backend(), RecoveryCode())
        try maker.addRecoveryCode(code, confirmation: .value(code.text))
        #expect(try maker.lockState == .unlocked)
        try other.unlock(with: .recoveryCode(.value(code.text)))
        try other.rotateKeys()
        try other.lockbox().archiveObject("new", forKey: "k", accessibility: .whenUnlocked)
        #expect(try maker.lockbox().unarchiveObject(forKey: "k") == "new")
    }

    /// By any process, and whoever has unlocked the store with another slot goes on.
    @Test func whoHasAnotherSlotGoesOn() throws {
        let backend = try backendWithRecovery()
        try backend.addSlot(.key(.bytes(Self.key)), label: "")
        let service = store.backend()
        try service.unlock(with: .key(.bytes(Self.key)))
        let person = store.backend()
        try person.unlock(with: .recoveryCode(.value(code.text)))
        try backend.changePasscode(to: .value("new"), strength: .interactive)
        try service.lockbox().archiveObject("newer", forKey: "ck", accessibility: .afterFirstUnlock)
        #expect(try person.lockbox().unarchiveObject(forKey: "ck") == "newer")
        try backend.rotateKeys()
        #expect(try service.lockbox().unarchiveObject(forKey: "ck") == "newer")
        try person.lockbox().archiveObject("newest", forKey: "ak")
        #expect(try backend.lockbox().unarchiveObject(forKey: "ak") == "newest")
    }

    /// Apps call the methods too, with what a keybag of somebody else contains.
    @Test func whatIsNoSlotIsCorrupt() throws {
        let salt = [UInt8](repeating: 1, count: 32)
        let passcode = SecretUnlock.passcode(.value("correct horse"), strength: .interactive)
        let enrollment = try passcode.enroll(salt: salt)
        #expect(try passcode.deriveSecret(enrollment.parameters, salt: salt) == enrollment.secret)
        expectError(.corrupt) { try passcode.deriveSecret(enrollment.parameters, salt: [1]) }
        // Algorithm, zeros, passes; memory that is not in whole KiB, and too much.
        for index in [0, 1, 2, 3, 4, 8, 12] {
            var parameters = enrollment.parameters
            parameters[index] ^= 0x80
            expectError(.corrupt, "byte \(index)") { try passcode.deriveSecret(parameters, salt: salt) }
        }
        let code = SecretUnlock.recoveryCode(.value(RecoveryCode().text))
        for method in [passcode, code, .key(.bytes(Self.key))] {
            let parameters = try method.enroll(salt: salt).parameters
            expectError(.corrupt) { try method.deriveSecret(parameters + [0], salt: salt) }
        }
    }

    /// The same key may open less in a slot that was added before.
    @Test func theSlotThatOpensMostIsTakenFirst() throws {
        let own = try store.backend().setUp(recovery: RecoveryCode())
        let key = [UInt8](repeating: 9, count: 32)
        try own.addSlot(.key(.bytes(key)), label: "a service")
        try own.addSlot(.key(.bytes(key)), label: "everything", opensAllClasses: true)
        let other = store.backend()
        try other.unlock(with: .key(.bytes(key)))
        #expect(try other.lockState == .unlocked)
    }

    /// A chip that knows the slot, and refuses the PIN, says more than one that does not.
    @Test func theAnswerOfTheRightChipIsReported() throws {
        let own = try store.backend().setUp(recovery: RecoveryCode())
        for chip: UInt8 in 1...2 {
            try own.addSlot(Chip(number: chip), label: "\(chip)", opensAllClasses: true)
        }
        for answer in [LockboxError.wrongPasscode, .accessDenied(endpoint: "chip", reason: "locked out")] {
            expectError(answer.code) { try store.backend().unlock(with: Chip(number: 1, answer: answer)) }
        }
        expectError(.notReachable) { try store.backend().unlock(with: Chip(number: 3)) }
        try store.backend().unlock(with: Chip(number: 2))
    }

    /// A chip opens its own slots only.
    private struct Chip: UnlockMethod {
        let number: UInt8
        var answer: LockboxError?

        var kind: SlotKind { .tpm }

        func enroll(salt: [UInt8]) throws -> SlotEnrollment {
            SlotEnrollment(parameters: [number], secret: salt)
        }

        func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
            guard parameters == [number] else {
                throw LockboxError.notReachable(endpoint: "chip", reason: "it is another chip's")
            }
            if let answer { throw answer }
            return salt
        }
    }
}
