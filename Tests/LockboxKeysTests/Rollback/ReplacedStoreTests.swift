import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A store is replaced while no program has it open.
@Suite struct ReplacedStoreTests {
    private let store: TestStore
    private let code = RecoveryCode()

    init() throws { store = try TestStore() }

    private var identity: String {
        get throws { try #require(try store.backend().status()?.identity) }
    }

    private func expectRefused(
        _ code: LockboxError.Code,
        _ program: EncryptedFileBackend,
        _ comment: Comment,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let (lockbox, before) = (try program.lockbox(), try store.snapshot())
        for call in [
            { _ = try lockbox.unarchiveObject(String.self, forKey: "k") }, { _ = try lockbox.allKeys() },
            { try lockbox.archiveObject("next", forKey: "new") },
            { try lockbox.archiveObject("next", forKey: "new", accessibility: .always) },
            { try program.unlock(.value("1234")) },
            { try program.unlock(with: .recoveryCode(.value(self.code.text))) },
        ] as [() throws -> Void] {
            let error = lockboxError(call)
            #expect(error?.code == code, comment, sourceLocation: sourceLocation)
        }
        #expect(try store.snapshot() == before, comment, sourceLocation: sourceLocation)
    }

    // MARK: Write access alone

    enum Replacement: CaseIterable {
        case ofSameID, ofSameIDAndLater, ofSameIDWithSlot, another, anotherWithSlot, none
    }

    /// The attacker has no key. The store's ID is in the keybag's clear header.
    private func replace(_ replacement: Replacement) throws {
        let header = try readBytes(store.keybag).withUnsafeBytes { try KeybagHeader($0) }
        try FileManager.default.removeItem(atPath: "\(store.directory)/items")
        if replacement == .none {
            try removeBoth(store.keybag)
            return try removeBoth(store.deviceKey)
        }
        let isAnother = [.another, .anotherWithSlot].contains(replacement)
        var contents = try KeybagContents(isAnother ? .random() : header.storeID)
        if replacement != .ofSameID { contents.generation = header.generation + 7 }
        if [.ofSameIDWithSlot, .anotherWithSlot].contains(replacement) {
            let own = SecretUnlock.passcode(.value("mine"), strength: .interactive)
            let keyStore = store.backend(remembers: false).keyStore
            contents.slots = [
                try keyStore.slots.make(own, label: "", opensAllClasses: true, contents.storeID).slot
            ]
        }
        if replacement != .ofSameID { contents.epoch = 50; try contents.beginEpoch() }
        let deviceKey = try SecretKey.random()
        try overwriteBoth(store.deviceKey, DeviceKeyRecord.encoded([deviceKey]))
        try overwriteBoth(store.keybag, contents.encoded(deviceKey: deviceKey))
    }

    @Test(arguments: Replacement.allCases) func aReplacedStoreIsRefusedAfterARestart(
        _ replacement: Replacement
    ) throws {
        try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        let (identity, items) = (try identity, "\(store.directory)-items")
        try FileManager.default.copyItem(atPath: "\(store.directory)/items", toPath: items)
        let owners = try store.keyFiles()
        try replace(replacement)
        let known: LockboxError.Code =
            switch replacement {
            case .ofSameID, .none: .rolledBack
            case .ofSameIDAndLater, .ofSameIDWithSlot: .authenticationFailed
            case .another, .anotherWithSlot: .storeReplaced
            }
        try expectRefused(known, store.backend(), "remembered")
        try expectRefused(
            .requirementNotMet,
            store.backend(requires: .init(identity: identity), remembers: false),
            "required"
        )
        // The control: nothing tells a program that knows nothing.
        let unaware = try store.backend(remembers: false).lockbox()
        #expect(try unaware.unarchiveObject(String.self, forKey: "k") == nil)
        if ![.ofSameIDWithSlot, .anotherWithSlot].contains(replacement) {
            try unaware.archiveObject("next", forKey: "new")
        }
        // The owner's is back.
        try? FileManager.default.removeItem(atPath: "\(store.directory)/items")
        try FileManager.default.copyItem(atPath: items, toPath: "\(store.directory)/items")
        try store.putBack(owners)
        let program = store.backend()
        try program.unlock(.value("1234"))
        #expect(try program.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    /// Its owner has made another one.
    @Test(arguments: [Replacement.ofSameIDAndLater, .another, .none])
    func aReplacedStoreIsAccepted(_ replacement: Replacement) throws {
        try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        try replace(replacement)
        #expect(throws: LockboxError.self) { try store.backend().lockbox().allKeys() }
        #expect(try store.backend().acceptRestored().isComplete)
        try store.backend().lockbox().archiveObject("next", forKey: "k")
        #expect(try store.backend().lockbox().unarchiveObject(forKey: "k") == "next")
    }

    // MARK: The device key too

    @Test func noIdentityIsForged() throws {
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let (forger, before) = (try Forger(store), try identity)
        let owner = try store.backend().setUp(recovery: code)
        try owner.addSlot(.key(.bytes([UInt8](repeating: 9, count: 32))), label: "a service")
        let (identity, owners) = (try identity, try store.keyFiles())
        #expect(identity != before, "everybody who had the device key has the private half from before")
        let unlockKey = try #require(try owner.keyStore.current().unlockKeys[.afterFirstUnlock])
        let slots = try store.openedKeybag().slots
        let forgeries: [(Comment, () throws -> Void)] = [
            ("no slots", { try forger.removeSlots() }), ("hidden slots", { _ = try forger.hideSlots() }),
            ("other slots", { try forger.replaceSlots() }),
            ("later", { try forger.replaceSlots(isLater: true, keeping: slots) }),
            (
                "of a service",
                { try forger.replaceSlots(keeping: slots) { $0.unlockKeys[.afterFirstUnlock] = unlockKey } }
            ),
            ("numbers", { try store.resealKeybag { $0[8] += 1 } }),
            ("a signature", { try store.resealKeybag { $0[$0.count - 17] ^= 1 } }),
        ]
        for (name, forge) in forgeries {
            try store.putBack(owners)
            try forge()
            let program = store.backend(requires: .init(identity: identity), remembers: false)
            try expectRefused(.requirementNotMet, program, name)
        }
        try store.putBack(owners)
        try store.backend(requires: .init(identity: identity)).unlock(.value("1234"))
        expectError(.requirementNotMet) { _ = try store.backend(requires: .init(identity: before)).slots }
    }

    @Test func theIdentityStaysUntilThereIsAFirstSlotAgain() throws {
        let owner = try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        let first = try identity
        try owner.changePasscode(to: .value("5678"), strength: .interactive)
        try owner.rotateKeys()
        try owner.removePasscode(includingOtherSlots: true)
        #expect(try identity == first)
        let required = store.backend(requires: .init(identity: first))
        let before = try store.snapshot()
        expectError(.requirementNotMet) { try required.setPasscode(.value("1234"), strength: .interactive) }
        #expect(try store.snapshot() == before)
        try store.backend().setPasscode(.value("1234"), strength: .interactive)
        #expect(try identity != first)
    }

    // MARK: A former passcode

    /// An attacker who knew the passcode makes a keybag of later numbers for the recovery code, which stayed, under a device key of their own.
    private func forge(by former: EncryptedFileBackend, epochs: UInt32) throws -> KeybagContents {
        let opened = try former.keyStore.current()
        var forged = try #require(try KeybagContents(after: opened))
        forged.slots.removeAll { $0.slot.kind == .passcode }
        forged.generation += 40
        forged.epoch += epochs
        try forged.beginEpoch()
        return forged
    }

    private func place(_ forged: KeybagContents) throws {
        let deviceKey = try SecretKey.random()
        try overwriteBoth(store.deviceKey, DeviceKeyRecord.encoded([deviceKey]))
        try overwriteBoth(store.keybag, forged.encoded(deviceKey: deviceKey))
    }

    @Test(arguments: [UInt32(3), 40]) func aFormerPasscodeDeceivesNobodyWhoRemembers(_ epochs: UInt32) throws
    {
        try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        let former = store.backend(remembers: false)
        try former.unlock(.value("1234"))
        let forged = try forge(by: former, epochs: epochs)
        let asleep = StoreMemory(store.memory.path + "-of-another-user", of: store.directory)
        try store.backend(memory: asleep).unlock(.value("1234"))
        let owner = store.backend()
        try owner.unlock(.value("1234"))
        try owner.changePasscode(to: .value("5678"), strength: .interactive)
        try owner.rotateKeys()
        let (owners, identity) = (try store.keyFiles(), try identity)
        let running = store.backend(remembers: false)
        try running.unlock(with: .recoveryCode(.value(code.text)))
        #expect(try store.backend().slots.filter(\.isOlderThanRevocation).map(\.kind) == [.recoveryCode])
        try place(forged)
        try expectRefused(.authenticationFailed, store.backend(), "remembered")
        expectError(.authenticationFailed) { try running.lockbox().archiveObject("next", forKey: "new") }
        // The limit of every design: who has had all classes open knows what the slot that stayed knows the store by.
        for requirements in [StoreRequirements(), .init(identity: identity)] {
            let unaware = store.backend(requires: requirements, remembers: false)
            expectError(.passcodeNotSet) { try unaware.unlock(.value("5678")) }
            try unaware.unlock(with: .recoveryCode(.value(code.text)))
        }
        // The memory of who slept through the change follows both, whichever comes first.
        try store.backend(memory: asleep).unlock(with: .recoveryCode(.value(code.text)))
        try store.putBack(owners)
        try store.backend().unlock(.value("5678"))
        #expect(throws: LockboxError.self) { try store.backend(memory: asleep).unlock(.value("5678")) }
    }

    @Test func slotsOlderThanTheLastRevocation() throws {
        let owner = try store.backend().setUp(recovery: code)
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
}
