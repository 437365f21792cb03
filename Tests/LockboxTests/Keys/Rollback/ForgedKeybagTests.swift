import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Somebody who has the device key, but no passcode, puts keybags of their own in place while a program is running that has
/// unlocked the store.
@Suite struct ForgedKeybagTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    /// What the forger knows: the store from before it had a passcode.
    private struct Forger {
        let store: TestStore
        let before: Keybag

        init(_ store: TestStore) throws {
            self.store = store
            before = try store.openedKeybag()
        }

        private func contents() throws -> KeybagContents {
            var forged = try #require(
                try KeybagContents(after: before, unlockKeys: before.unlockKeys(with: nil))
            )
            forged.generation = try store.openedKeybag().generation + 1
            return forged
        }

        /// A keybag without slots, which the device key opens.
        func removeSlots() throws {
            var forged = try contents()
            forged.epoch = try store.openedKeybag().epoch
            try forged.beginEpoch()
            try overwrite(store.keybag, forged.encoded(deviceKey: store.deviceKeys()[0]))
        }

        /// A keybag with the forger's slot and the owner's list of keys. It says that nothing was retired, and that the store has
        /// had slots from its first epoch.
        func replaceSlots() throws {
            let owner = try store.openedKeybag()
            let known = try before.open(before.unlockKeys(with: nil)).keys
            var forged = try contents()
            let code = RecoveryCodeUnlock(.value(RecoveryCode().text))
            forged.slots = [
                try store.backend().keys.makeSlot(code, label: "", opensAllClasses: true, owner.storeID).slot
            ]
            (forged.keys, forged.epoch) = ([], 0)
            try forged.beginEpoch()
            forged.epoch = owner.epoch
            let keys = try owner.keyIDs.map { id in
                try (
                    id,
                    known.first { $0.id == id }?.key ?? owner.open([:]).keys.first { $0.id == id }?.key
                        ?? .random()
                )
            }
            forged.keys = keys
            try overwrite(store.keybag, forged.encoded(deviceKey: store.deviceKeys()[0]))
        }
    }

    /// What takes the program's own knowledge of the keybag away, before the one without slots is put in place.
    enum Before: CaseIterable {
        case nothing, slotsOfTheForger, lock, lockOfAllClasses, sameKeybagSealedAgain
    }

    @Test(.needsKernelKeyring, arguments: Before.allCases, UnlockScope.allCases)
    func anUnlockedProgramGivesNothingToAKeybagWithoutSlots(_ before: Before, _ scope: UnlockScope) throws {
        defer { store.lockForEverybody() }
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let forger = try Forger(store)
        try store.backend().setUp()
        let program = store.backend()
        try #require(try program.unlock(.value("1234"), scope: scope) == scope)
        let lockbox = try program.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "k") == "old")
        switch before {
        case .nothing: break
        case .slotsOfTheForger: try forger.replaceSlots()
        case .lock: try program.lock()
        case .lockOfAllClasses: try program.lock(includingAfterFirstUnlock: true)
        case .sameKeybagSealedAgain: try store.resealKeybag { _ in }
        }
        _ = try program.slots
        _ = try program.identity
        try forger.removeSlots()
        for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
            expectError(.authenticationFailed) {
                try lockbox.archiveObject("next", forKey: "k", accessibility: accessibility)
            }
        }
        expectError(.authenticationFailed) { try lockbox.archiveObject("next", forKey: "new") }
    }

    @Test func noRetiredKeyOpensWhatTheForgerCallsALeftover() throws {
        try store.backend().setUp(passcode: nil, items: ["first": .always])
        let forger = try Forger(store)
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked, "left": .whenUnlocked])
        let (path, left) = (try store.path("k"), try store.path("left"))
        let old = try readBytes(path)
        chmod(left, 0o644)
        _ = try? owner.changePasscode(to: .value("5678"), strength: .interactive)
        chmod(left, 0o600)
        try #require(!store.openedKeybag().leftovers.isEmpty)
        let program = store.backend()
        try program.unlock(.value("5678"))
        let lockbox = try program.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "left") == "old", "the control")
        try overwrite(path, old)
        expectError(.authenticationFailed) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        try forger.replaceSlots()
        #expect(try program.slots.map(\.kind) == [.recoveryCode])
        expectError(.authenticationFailed) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        #expect(try lockbox.unarchiveObject(forKey: "left") == "old")
    }

    /// The class of an item from before the first slot could be anybody's choice.
    @Test func noForgedEpochProvesAClass() throws {
        try store.backend().setUp(passcode: nil, items: ["k": .always])
        let forger = try Forger(store)
        try store.backend().setPasscode(.value("1234"), strength: .interactive, resealing: false)
        let program = store.backend()
        try program.unlock(.value("1234"))
        let lockbox = try program.lockbox()
        expectError(.invalidAttribute) { try lockbox.archiveObject("next", forKey: "k") }
        try forger.replaceSlots()
        _ = try program.slots
        expectError(.invalidAttribute) { try lockbox.archiveObject("next", forKey: "k") }
    }

    /// The keybag without slots is put in place before each system call.
    private func everyCall(
        passcode: String?,
        _ change: (EncryptedFileBackend) throws -> Void
    ) throws -> Int {
        var (number, refused) = (0, 0)
        while true {
            number += 1
            let store = try TestStore()
            try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
            let forger = try Forger(store)
            if let passcode { try store.backend().setUp(passcode: passcode) }
            let interruption = Interruption(at: number) { try? forger.removeSlots() }
            let program = store.backend(interruption.calls)
            interruption.raise()
            do {
                try change(program)
                if try store.openedKeybag().slots.isEmpty {
                    expectError(.authenticationFailed, "before call \(number)") {
                        try program.lockbox().archiveObject("next", forKey: "new")
                    }
                }
            } catch { refused += 1 }
            if !interruption.hasHappened { return refused }
        }
    }

    @Test func aPasscodeIsNotSaidToBeSetIfItIsNot() throws {
        let refused = try everyCall(passcode: nil) {
            try $0.setPasscode(.value("1234"), strength: .interactive)
        }
        #expect(refused > 3)
    }

    @Test func whoAcceptsARestoredStoreWithAPasscodeGetsOneWithSlots() throws {
        let refused = try everyCall(passcode: "1234") { try $0.acceptRestored(.passcode(.value("1234"))) }
        #expect(refused > 3)
    }
}
