import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Somebody with the device key lets a program read several keybags, one after the other.
@Suite struct ForgedStepsTests {
    private let store: TestStore
    /// Opens the `afterFirstUnlock` classes.
    private let key = SecretUnlock.key(.bytes([UInt8](repeating: 9, count: 32)))

    init() throws { store = try TestStore() }

    /// The device key opens everything of a keybag without slots, its unlock keys too.
    @Test(.needsKernelKeyring, arguments: [true, false])
    func keysFromBeforeTheFirstSlotOpenNoKeybagWithSlots(isBefore: Bool) throws {
        defer { store.lockForEverybody() }
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let before = try store.openedKeybag()
        let known = try before.open(before.unlockKeys(with: nil)).unlockKeys
        let forger = try Forger(store)
        let program = store.backend(remembers: false)
        _ = try program.slots
        let owner = try store.backend().setUp(recovery: RecoveryCode())
        try owner.addSlot(key, label: "a service")
        let (owners, last) = (try readBytes(store.keybag), try store.openedKeybag().generation)
        let forged = try forger.replaceSlots {
            $0.generation = isBefore ? $0.generation - 1 : 1 << 40
            $0.unlockKeys = known
        }
        #expect(try program.lockState == .beforeFirstUnlock)
        #expect(store.memory.entry(of: before.storeID)?.numbers.generation == last)
        try overwriteBoth(store.keybag, owners)
        if !isBefore { return }
        try program.unlock(with: key)
        let lockbox = try program.lockbox()
        expectError(.interactionNotAllowed) { try lockbox.archiveObject("next", forKey: "new") }
        try store.plant(at: "planted", naming: "planted", sealedWith: forged.keys)
        #expect(throws: LockboxError.self) { try lockbox.unarchiveObject(Data.self, forKey: "planted") }
        try forger.removeSlots()
        for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock] {
            expectError(.authenticationFailed) {
                try lockbox.archiveObject("next", forKey: "new", accessibility: accessibility)
            }
        }
    }

    /// A service's slot gives the unlock key of `afterFirstUnlock`, and so does the kernel after a lock.
    @Test(arguments: [true, false], [true, false])
    func noSlotOpensLessThanItDid(isRunning: Bool, isFormer: Bool) throws {
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let forger = try Forger(store)
        let owner = try store.backend().setUp(recovery: RecoveryCode())
        try owner.addSlot(key, label: "a service")
        let service = store.backend()
        try service.unlock(with: key)
        let unlockKey = try #require(try service.keyStore.current().unlockKeys[.afterFirstUnlock])
        let slots = try store.openedKeybag().slots
        if isFormer { try owner.removeSlot(#require(owner.slots.last).id) }
        let program = store.backend(remembers: false)
        if isRunning { try program.unlock(.value("1234")) }
        let forged = try forger.replaceSlots(isLater: true) {
            $0.unlockKeys[.afterFirstUnlock] = unlockKey
        }
        var listed = slots
        for index in listed.indices { listed[index].grants.removeAll { $0.level == .unlocked } }
        try overwriteBoth(store.keybag, forged.encoded(deviceKey: store.deviceKeys()[0], listing: listed))
        if !isRunning {
            #expect(throws: LockboxError.self) { try program.unlock(.value("1234")) }
        }
        #expect(throws: LockboxError.self) {
            try program.lockbox().archiveObject("next", forKey: "new", accessibility: .afterFirstUnlock)
        }
    }

    /// The kernel keeps the key of `afterFirstUnlock` after a lock.
    @Test(.needsKernelKeyring) func theKeyThatALockLeavesTakesNoKnowledgeAway() throws {
        defer { store.lockForEverybody() }
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked, "left": .whenUnlocked])
        let forger = try Forger(store)
        let (path, old) = (try store.path("k"), try readBytes(store.path("k")))
        try store.lockbox().archiveObject("later", forKey: "k")
        try store.backend().setPasscode(.value("1234"), strength: .interactive, resealing: false)
        let program = store.backend()
        try program.unlock(.value("1234"))
        let lockbox = try program.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "left") == "old", "the control")
        let other = store.backend()
        try other.unlock(.value("1234"), scope: .user)
        try other.lock()
        let key = try #require(try program.keyStore.current().unlockKeys[.afterFirstUnlock])
        try overwrite(path, old)
        expectError(.corrupt) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        try forger.replaceSlots(isLater: true) { $0.unlockKeys[.afterFirstUnlock] = key }
        #expect(throws: LockboxError.self) { try lockbox.unarchiveObject(String.self, forKey: "k") }
    }

    /// Its owner puts a copy from before the first slot in place, while a program is running that has unlocked the store.
    @Test func aStoreFromBeforeTheFirstSlotIsAccepted() throws {
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let copy = try TestStore(copying: store)
        let program = try store.backend(remembers: false).setUp()
        try store.replace(with: copy)
        expectError(.rolledBack) { try program.slots }
        #expect(try program.acceptRestored().isComplete)
        #expect(try program.lockbox().unarchiveObject(forKey: "k") == "old")
        try program.lockbox().archiveObject("next", forKey: "k")
        #expect(try store.backend(remembers: false).lockbox().unarchiveObject(forKey: "k") == "next")
    }

    /// A program of the same user writes a number that no store reaches, once.
    @Test(.needsKernelKeyring) func aNumberThatDoesNotCountHidesNoOther() throws {
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        let keybag = try store.openedKeybag()
        store.memory.remember(keybag.storeID, keybag.owner.key, .init(generation: 1 << 48, epoch: 1))
        let old = try store.keyFiles()
        try owner.rotateKeys()
        try store.putBack(old)
        expectError(.rolledBack) { try store.backend().slots }
    }

    /// An item that could not be read, in a folder that cannot be listed now.
    @Test func aFolderKeepsTheKeysOfItsItems() throws {
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked, "left": .whenUnlocked])
        let (left, folder) = (try store.path("left"), Path.parent(of: try store.path("left")))
        chmod(left, 0o644)
        #expect(try owner.rotateKeys().unrevokedCount == 1)
        chmod(folder, 0o777)
        let other = store.backend()
        try other.unlock(.value("1234"))
        #expect(try other.rotateKeys().unrevokedCount > 0)
        chmod(folder, 0o700)
        chmod(left, 0o600)
        for key in ["k", "left"] {
            expectError(.corrupt) { try other.lockbox().unarchiveObject(String.self, forKey: key) }
            try owner.acceptItem(record: owner.record(of: key))
            #expect(try owner.lockbox().unarchiveObject(forKey: key) == "old")
        }
        #expect(try owner.rotateKeys().isComplete)
        #expect(try owner.lockbox().unarchiveObject(forKey: "left") == "old")
    }
}
