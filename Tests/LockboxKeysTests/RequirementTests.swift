import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Somebody has the device key and may write, but has none of the secrets that unlock the store.
@Suite struct RequirementTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private func backend(_ requirements: StoreRequirements) -> EncryptedFileBackend {
        store.backend(requires: requirements, remembers: false)
    }

    /// Puts a store that the device key alone opens in the place of this one.
    private func plantStore() throws {
        try FileManager.default.removeItem(atPath: store.directory)
        try store.backend(remembers: false).lockbox().archiveObject("of the attacker", forKey: "ak")
    }

    @Test func aStoreWithoutAPasscodeIsRefused() throws {
        try store.backend().setUp(items: .everyClass)
        let identity = try #require(try store.backend().status()?.identity)
        try backend(.init(protection: .passcode, identity: identity)).unlock(.value("1234"))
        try plantStore()
        for requirements in [
            StoreRequirements(protection: .passcode), .init(protection: .anySlot), .init(identity: identity),
        ] {
            let before = try store.snapshot()
            let planted = backend(requirements)
            let lockbox = try planted.lockbox()
            expectError(.requirementNotMet) { try lockbox.unarchiveObject(String.self, forKey: "ak") }
            expectError(.requirementNotMet) { try lockbox.archiveObject("secret", forKey: "new") }
            expectError(.requirementNotMet) { try planted.unlock(.value("1234")) }
            expectError(.requirementNotMet) { try planted.lockState }
            #expect(try planted.verify().findings.map(\.kind) == [.refused])
            #expect(try store.snapshot() == before)
        }
        #expect(throws: LockboxError.passcodeNotSet, "a passcode is given, and there is none") {
            try store.backend(remembers: false).unlock(.value("1234"))
        }
    }

    @Test func aStoreThatHasGoneIsNotMadeAnew() throws {
        let required = backend(.init(protection: .passcode))
        expectError(.requirementNotMet) { try required.lockbox().archiveObject("secret", forKey: "k") }
        #expect(!FileManager.default.fileExists(atPath: store.keybag))
        #expect(try required.lockbox().unarchiveObject(String.self, forKey: "k") == nil)
        try required.setPasscode(.value("1234"), strength: .interactive)
        try required.lockbox().archiveObject("secret", forKey: "k")
        try FileManager.default.removeItem(atPath: store.directory)
        let identified = backend(.init(identity: String(repeating: "0", count: 32)))
        expectError(.requirementNotMet) { try identified.lockbox().archiveObject("secret", forKey: "k") }
    }

    /// A store looked at while a passcode was to be set does not meet the requirement.
    @Test func aPasscodeThatCouldNotBeSetLeavesTheStoreRefused() throws {
        try store.lockbox().archiveObject("of the attacker", forKey: "k")
        let required = backend(.init(protection: .passcode))
        expectError(.invalidPasscode) { try required.setPasscode(.value(""), strength: .interactive) }
        expectError(.requirementNotMet) { try required.lockbox().unarchiveObject(String.self, forKey: "k") }
        expectError(.requirementNotMet) { try required.lockbox().archiveObject("secret", forKey: "n") }
    }

    @Test func aRecoveryCodeIsASlot() throws {
        let required = backend(.init(protection: .anySlot))
        let code = RecoveryCode()
        try required.addRecoveryCode(code, confirmation: .value(code.text))
        try required.lockbox().archiveObject("v", forKey: "k")
        try backend(.init(protection: .anySlot)).unlock(with: .recoveryCode(.value(code.text)))
        let strict = EncryptedFileBackend(
            directory: store.directory + "-strict",
            requires: .init(protection: .passcode)
        )
        expectError(.requirementNotMet) { try strict.addRecoveryCode(code, confirmation: .value(code.text)) }
    }

    @Test func noPasscodeIsSetForAnotherStore() throws {
        try store.lockbox().archiveObject("v", forKey: "k")
        let before = try store.snapshot()
        let other = backend(.init(protection: .passcode, identity: String(repeating: "0", count: 32)))
        expectError(.requirementNotMet) { try other.setPasscode(.value("1234"), strength: .interactive) }
        #expect(try store.snapshot() == before)
    }

    /// Somebody has forged a keybag without slots. Their items would be resealed as the owner's.
    @Test func noPasscodeIsSetForAKnownStoreThatHasLostIt() throws {
        try store.lockbox().archiveObject("of the attacker", forKey: "k")
        let identity = try #require(try store.backend().status()?.identity)
        let before = try store.snapshot()
        let known = backend(.init(protection: .passcode, identity: identity))
        expectError(.requirementNotMet) { try known.setPasscode(.value("1234"), strength: .interactive) }
        #expect(try store.snapshot() == before)
    }

    @Test func aPasscodeCanBeSetWhereItIsRequired() throws {
        try store.lockbox().archiveObject("v", forKey: "k", accessibility: .always)
        let required = backend(.init(protection: .passcode))
        expectError(.requirementNotMet) { try required.lockState }
        try required.setPasscode(.value("1234"), strength: .interactive)
        #expect(try required.lockbox().unarchiveObject(forKey: "k") == "v")
        let key = [UInt8](repeating: 3, count: 32)
        let code = RecoveryCode()
        try required.addRecoveryCode(code, confirmation: .value(code.text))
        try required.addSlot(.key(.bytes(key)), label: "")
        expectError(.requirementNotMet, "before anything is changed") { try required.removePasscode() }
        let free = store.backend()
        try free.unlock(.value("1234"))
        try free.removePasscode()
        expectError(.requirementNotMet, "a key does not count") {
            try backend(.init(protection: .passcode)).lockState
        }
        try backend(.init(protection: .anySlot)).unlock(with: .key(.bytes(key)))
    }

    /// Seals an item with the keys that the device key alone opens.
    private func forge(_ key: String, _ value: String) throws {
        let keyring = try store.openedKeybag().keyring()
        let item = try StoredItem(
            key: ItemKey(prefix: TestStore.prefix, key: key),
            value: ArchivedValue(data: JSONEncoder().encode([value]).dropFirst().dropLast(), format: .json),
            accessibility: .always,
            modified: Date()
        )
        try overwrite(
            store.path(key),
            ItemEnvelope.seal(item, id: keyring.itemID(item.key), keyring: keyring)
        )
    }

    @Test func aForgedItemOfAnUnprotectedClassIsRefused() throws {
        let own = try store.backend().setUp(items: .everyClass)
        try forge("ak", "forged")
        #expect(try own.lockbox().unarchiveObject(forKey: "ak") == "forged", "the control")
        let required = backend(.init(protection: .passcode, minimumAccessibility: .afterFirstUnlock))
        try required.unlock(.value("1234"))
        let lockbox = try required.lockbox()
        let path = try store.path("ak")
        let forged = try readBytes(path)
        expectError(.requirementNotMet) { try lockbox.unarchiveObject(String.self, forKey: "ak") }
        expectError(.requirementNotMet, "a write would keep the class") {
            try lockbox.archiveObject("next", forKey: "ak")
        }
        expectError(.requirementNotMet) { try lockbox.update("ak", as: String.self) { $0 = "next" } }
        expectError(.requirementNotMet) {
            try lockbox.archiveObject("v", forKey: "n", accessibility: .always)
        }
        expectError(.requirementNotMet) { try lockbox.attributes(forKey: "ak") }
        #expect(try readBytes(path) == forged)
        var refused: [LockboxError.Code] = []
        var listed: Set<String> = []
        try required.forEachItem(
            prefix: TestStore.prefix,
            now: nil,
            unreadable: { refused.append($0.error.code) }
        ) {
            key,
            _ in listed.insert(key.key)
        }
        #expect(listed == ["ck", "aku", "cku", "akpu"])
        #expect(
            refused == [.requirementNotMet, .requirementNotMet, .requirementNotMet],
            "with the two of this class"
        )
        #expect(try lockbox.unarchiveObject(forKey: "ck") == "old")
        try lockbox.removeObject(forKey: "ak")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "ak") == nil)
    }

    @Test func theIdentityStaysUntilThereIsAFirstSlotAgain() throws {
        let owner = try store.backend().setUp(recovery: RecoveryCode(), items: ["k": .whenUnlocked])
        func identity() throws -> String? { try store.backend().status()?.identity }
        let first = try identity()
        try owner.changePasscode(to: .value("5678"), strength: .interactive)
        try owner.rotateKeys()
        try owner.removePasscode(includingOtherSlots: true)
        #expect(try identity() == first)
        let required = backend(.init(identity: first))
        let before = try store.snapshot()
        expectError(.requirementNotMet) { try required.setPasscode(.value("1234"), strength: .interactive) }
        #expect(try store.snapshot() == before)
        try store.backend().setPasscode(.value("1234"), strength: .interactive)
        #expect(try identity() != first)
    }
}
