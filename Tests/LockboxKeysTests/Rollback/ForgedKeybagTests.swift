import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// An attacker who has the device key, but no passcode, puts keybags in place. ``KnowledgeTests`` has which of them are taken; these
/// are the places where they come in, and what a keybag that is taken gets.
@Suite struct ForgedKeybagTests {
    private let store: TestStore
    /// Opens the `afterFirstUnlock` classes.
    private let service = SecretUnlock.key(.bytes([UInt8](repeating: 9, count: 32)))

    init() throws { store = try TestStore() }

    /// Knows the store from before it had the slots of its owner, which it gets then.
    private func forger(_ items: [String: Accessibility] = ["k": .whenUnlocked]) throws -> (
        Forger, EncryptedFileBackend
    ) {
        try store.backend().setUp(passcode: nil, items: items)
        let forger = try Forger(store)
        let owner = try store.backend().setUp(recovery: RecoveryCode())
        try owner.addSlot(service, label: "a service")
        return (forger, owner)
    }

    // MARK: Every place

    enum Place: CaseIterable {
        // Of a program that begins, whose user has unlocked the store
        case firstLook, copy, unlock
        // Of a program that has unlocked the store itself, and has no other memory
        case look, unlockForTheUser, write, change, changeUnderTheLock
    }

    enum Forgery: CaseIterable {
        case withoutSlots, former, anotherStore

        var code: LockboxError.Code {
            switch self {
            case .withoutSlots: .authenticationFailed
            case .former: .rolledBack
            case .anotherStore: .storeReplaced
            }
        }
    }

    @Test(.needsKernelKeyring, arguments: Place.allCases, Forgery.allCases)
    func aKeybagIsJudgedWhereverItComesIn(_ place: Place, _ forgery: Forgery) throws {
        defer { store.lockForEverybody() }
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let (forger, owner) = (try Forger(store), try store.backend().setUp())
        let (former, another) = (try store.keyFiles(), try TestStore())
        try owner.rotateKeys()
        _ = try another.backend().keyStore.create(.all)
        let program = store.backend(remembers: false)
        try program.unlock(.value("1234"))
        try store.backend().unlock(.value("1234"))
        let forge: @Sendable () throws -> Void = { [store] in
            switch forgery {
            case .withoutSlots: try forger.removeSlots()
            case .former: try store.putBack(former)
            case .anotherStore: try store.putBack(another.keyFiles())
            }
        }
        let passcode = PasscodeSource.closure {
            try forge()
            return Array("5678".utf8)
        }
        if place != .changeUnderTheLock { try forge() }
        if place == .copy { try flipLastByte(of: store.keybag) }
        let before = try store.snapshot()
        expectError(forgery.code) {
            switch place {
            case .firstLook, .copy: _ = try store.backend().lockState
            case .unlock: try store.backend().unlock(.value("1234"))
            case .look: _ = try program.slots
            case .unlockForTheUser: try program.unlock(.value("1234"), scope: .user)
            case .write: try program.lockbox().archiveObject("next", forKey: "k")
            case .change: try program.rotateKeys()
            case .changeUnderTheLock: try program.changePasscode(to: passcode, strength: .interactive)
            }
        }
        if place != .changeUnderTheLock { #expect(try store.snapshot() == before) }
    }

    // MARK: Every call of a change

    enum Change: CaseIterable { case setPasscode, changePasscode, rotateKeys, acceptRestored }

    /// If what the attacker has put in place before a call is still there at the end, or was changed in the place of the owner's, the
    /// change fails, or the program's next write does.
    @Test(.needsKernelKeyring, arguments: Change.allCases)
    func aChangeThatWasUndoneIsNotSaidToBeDone(_ change: Change) throws {
        defer { store.lockForEverybody() }
        _ = try store.backend().keyStore.create(.all)
        let forger = try Forger(store)
        if change != .setPasscode { try store.backend().setUp() }
        var (number, refused) = (Interruption.start, 0)
        while true {
            number += Interruption.stride
            let (copy, placed) = (try TestStore(copying: store), Protected<[UInt8]?>(nil))
            let before = try copy.keyFiles()
            let interruption = Interruption(at: number) {
                var forger = forger
                forger.store = copy
                try? change.undo(forger, before)
                placed.withLock { $0 = try? readBytes(copy.keybag) }
            }
            // Others work on what is open already.
            let calls = SystemCalls {
                if [.open, .stat, .rename].contains($0) { interruption.call() }
                return nil
            }
            let program = copy.backend(calls, remembers: false)
            if change != .setPasscode { try copy.backend().unlock(.value("1234"), scope: .user) }
            if change == .rotateKeys { try program.unlock(.value("1234")) }
            interruption.raise()
            let isDone = (try? change.make(program)) != nil
            // The owner has one slot at most. A device key that was put back may fit no keybag.
            let slots = (try? copy.openedKeybag().slots.count) ?? 0
            if try slots > 1 || placed.withLock({ $0 }) == readBytes(copy.keybag) {
                if !isDone { refused += 1 }
                let error = lockboxError { try program.lockbox().archiveObject("next", forKey: "new") }
                #expect(!isDone || error != nil, "call \(number)")
            }
            if !interruption.hasHappened { break }
        }
        #expect(refused > 3 / Interruption.stride)
    }

    // MARK: Keybags that are taken

    /// A program that knows nothing looks at a keybag without slots: the store's own from before, or one that hides them.
    @Test(arguments: [true, false]) func keysOfAFirstLookAreForgotten(isHidden: Bool) throws {
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let (forger, program) = (try Forger(store), store.backend(remembers: false))
        let before = try store.openedKeybag()
        let known = try before.open(before.unlockKeys(with: nil)).unlockKeys
        if !isHidden { _ = try program.slots }
        try store.backend().setUp(recovery: RecoveryCode()).addSlot(service, label: "a service")
        let owners = try readBytes(store.keybag)
        let forged =
            try isHidden
            ? forger.hideSlots()
            : forger.replaceSlots { ($0.generation, $0.unlockKeys) = ($0.generation - 1, known) }
        #expect(try program.lockState == (isHidden ? .unprotected : .beforeFirstUnlock))
        try overwriteBoth(store.keybag, owners)
        try program.unlock(with: service)
        let lockbox = try program.lockbox()
        expectError(.interactionNotAllowed) { try lockbox.archiveObject("next", forKey: "new") }
        try store.plant(at: "planted", naming: "planted", sealedWith: forged.keys)
        #expect(throws: LockboxError.self) { try lockbox.unarchiveObject(Data.self, forKey: "planted") }
        // What it can write, it seals with the owner's keys.
        try lockbox.archiveObject("next", forKey: "later", accessibility: .afterFirstUnlock)
        let owner = store.backend()
        try owner.unlock(.value("1234"))
        #expect(try owner.lockbox().unarchiveObject(forKey: "later") == "next")
    }

    /// A service takes the attacker's slots, which change neither what former keys open nor which classes are proven.
    @Test func aForgedKeybagOpensNothingUnderFormerKeysAndProvesNoClass() throws {
        let (forger, owner) = try forger(["k": .afterFirstUnlock, "left": .afterFirstUnlock])
        let (path, earlier) = (try store.path("k"), try readBytes(store.path("k")))
        try owner.lockbox().archiveObject("later", forKey: "k", accessibility: .afterFirstUnlock)
        try owner.changePasscode(to: .value("5678"), strength: .interactive, resealing: false)
        let program = store.backend(remembers: false)
        try program.unlock(with: service)
        let lockbox = try program.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "left") == "old", "the control")
        try overwrite(path, earlier)
        var manifest = Manifest()
        let id = try #require(RecordID(name: Path.name(of: path)))
        manifest.add(id, earlier.withUnsafeBytes(RecordHash.init(hashing:)))
        let (hash, bytes) = manifest.encoded(maximumLength: .max)[0]
        try overwrite("\(store.directory)/items/manifest/\(hash.name)", bytes)
        let epoch = try store.openedKeybag().firstProtected
        try forger.replaceSlots { $0.closeOlderEpochs(listing: hash) { _ in true } }
        #expect(try program.slots.count == 1, "it is taken")
        #expect(try store.openedKeybag().firstProtected < epoch)
        expectError(.corrupt) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        #expect(try program.keyStore.current().keyring.protection(ofEpoch: epoch - 1) == .earlierThanSlots)
    }

    /// A service's slot gives the unlock key of `afterFirstUnlock`, and so does the kernel after a lock. The keybag is exchanged while a
    /// program that knows nothing asks for a key of all classes.
    @Test func aSlotThatIsListedWithoutItsLevelOpensNothing() throws {
        let ((forger, owner), key) = (try forger(), [UInt8](repeating: 8, count: 32))
        try owner.addSlot(.key(.bytes(key)), label: "a person", opensAllClasses: true)
        let unlockKey = try #require(try owner.keyStore.current().unlockKeys[.afterFirstUnlock])
        var listed = try store.openedKeybag().slots.filter { $0.kind == .key }
        for index in listed.indices { listed[index].grants.removeAll { $0.level == .unlocked } }
        let owners = try readBytes(store.keybag)
        let forged = try forger.replaceSlots(isLater: true) { $0.unlockKeys[.afterFirstUnlock] = unlockKey }
        let record = try forged.encoded(deviceKey: store.deviceKeys()[0], listing: listed)
        try overwriteBoth(store.keybag, owners)
        let source = DeviceKeySource.closure { [store] in
            try overwriteBoth(store.keybag, record)
            return key
        }
        let program = store.backend(remembers: false)
        expectError(.authenticationFailed) { try program.unlock(with: .key(source)) }
        expectError(.interactionNotAllowed) {
            try program.lockbox().archiveObject("next", forKey: "new", accessibility: .afterFirstUnlock)
        }
    }

    /// The keybag that lists the first slot and still seals with keys that the device key opens is there for a moment.
    @Test func nothingIsSealedWithKeysFromBeforeTheFirstSlot() throws {
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let before = try store.openedKeybag()
        let first = Protected<[UInt8]?>(nil)
        let copying = SystemCalls.atEachGeneration(of: store) { generation, keybag in
            if generation == before.generation + 1 { first.withLock { $0 = keybag } }
        }
        try store.backend(copying, remembers: false).setPasscode(.value("1234"), strength: .interactive)
        try overwriteBoth(store.keybag, #require(first.withLock { $0 }))
        try #require(try store.openedKeybag().isPrepared)
        let locked = store.backend(remembers: false)
        expectError(.interactionNotAllowed) { try locked.lockbox().archiveObject("next", forKey: "new") }
        let isFull = Protected(true)
        let full = SystemCalls { $0 == .write && isFull.withLock { $0 } ? .failure(ENOSPC) : nil }
        let owner = store.backend(full, remembers: false)
        try owner.unlock(.value("1234"))
        isFull.withLock { $0 = false }
        let lockbox = try owner.lockbox()
        expectError(.interactionNotAllowed) { try lockbox.archiveObject("next", forKey: "new") }
        try owner.unlock(.value("1234"))
        try lockbox.archiveObject("next", forKey: "new")
        var item = try readBytes(store.path("new"))
        let epoch = try #require(item.withUnsafeMutableBytes { ItemHeader.beginning(of: $0)?.epoch })
        #expect(try epoch >= store.openedKeybag().firstProtected && epoch > before.epoch)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "old")
    }

    // MARK: Records of the kernel

    @Test(.needsKernelKeyring) func aRecordThatOpensNothingGetsNoNextKeys() throws {
        defer { store.lockForEverybody() }
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        try store.publish([.unlocked: .random(), .afterFirstUnlock: .random()])
        #expect(try store.backend().lockState == .beforeFirstUnlock, "the control")
        try owner.rotateKeys()
        #expect(try store.backend().lockState == .beforeFirstUnlock)
    }

    @Test(.needsKernelKeyring) func aServiceThatHasUnlockedItselfTakesNoForgedUnlock() throws {
        defer { store.lockForEverybody() }
        let (forger, _) = try forger()
        let program = store.backend(remembers: false)
        try program.unlock(with: service)
        try store.publish(forger.replaceSlots(isLater: true).unlockKeys)
        #expect(try store.backend(remembers: false).lockState == .unlocked, "the control")
        for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock] {
            expectError(.interactionNotAllowed) {
                try program.lockbox().archiveObject("next", forKey: "new", accessibility: accessibility)
            }
        }
    }
}

extension ForgedKeybagTests.Change {
    fileprivate func make(_ program: EncryptedFileBackend) throws {
        switch self {
        case .setPasscode: try program.setPasscode(.value("1234"), strength: .interactive, resealing: false)
        case .changePasscode:
            try program.changePasscode(
                from: .value("1234"),
                to: .value("5678"),
                strength: .interactive,
                resealing: false
            )
        case .rotateKeys: try program.rotateKeys()
        case .acceptRestored: try program.acceptRestored(.passcode(.value("1234")))
        }
    }

    /// Removes the slots, puts back what was there, or puts a slot beside the owner's and unlocks that keybag in the kernel.
    fileprivate func undo(_ forger: Forger, _ before: KeyFiles) throws {
        switch self {
        case .setPasscode: try forger.removeSlots()
        case .rotateKeys: try forger.store.putBack(before)
        case .changePasscode, .acceptRestored:
            let slots = try Keybag.read(
                before.keybag,
                before.deviceKey.withUnsafeBytes { try DeviceKeyRecord.decode($0) }
            ).slots
            let forged = try forger.replaceSlots(isLater: true, keeping: slots)
            // Waits for no lock, as the program may have it.
            _ = try? UserUnlock(kernel: KernelKeyring()).remove(forged.storeID)
            try forger.store.publish(forged.unlockKeys)
        }
    }
}
