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

    /// A program that has unlocked the store and read an item, and a forger who knows the store from before.
    private func unlocked(_ scope: UnlockScope) throws -> (Forger, EncryptedFileBackend) {
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let forger = try Forger(store)
        try store.backend().setUp()
        let program = store.backend()
        try #require(try program.unlock(.value("1234"), scope: scope) == scope)
        #expect(try program.lockbox().unarchiveObject(forKey: "k") == "old")
        return (forger, program)
    }

    /// Steps that take the program's own knowledge of the keybag away, before the one without slots is put in place.
    enum Before: CaseIterable {
        case nothing, slotsOfTheForger, lock, lockOfAllClasses, sameKeybagSealedAgain
    }

    @Test(.needsKernelKeyring, arguments: Before.allCases, UnlockScope.allCases)
    func anUnlockedProgramGivesNothingToAKeybagWithoutSlots(_ before: Before, _ scope: UnlockScope) throws {
        defer { store.lockForEverybody() }
        let (forger, program) = try unlocked(scope)
        let lockbox = try program.lockbox()
        switch before {
        case .nothing: break
        case .slotsOfTheForger: try forger.replaceSlots()
        case .lock: try program.lock()
        case .lockOfAllClasses: try program.lock(includingAfterFirstUnlock: true)
        case .sameKeybagSealedAgain: try store.resealKeybag { _ in }
        }
        _ = try? program.slots
        try forger.removeSlots()
        for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
            expectError(.authenticationFailed) {
                try lockbox.archiveObject("next", forKey: "k", accessibility: accessibility)
            }
        }
        expectError(.authenticationFailed) { try lockbox.archiveObject("next", forKey: "new") }
    }

    @Test func noFormerKeyOpensWhatTheForgerLists() throws {
        try store.backend().setUp(passcode: nil, items: ["first": .always])
        let forger = try Forger(store)
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked, "left": .whenUnlocked])
        let (path, earlier) = (try store.path("k"), try readBytes(store.path("k")))
        try owner.lockbox().archiveObject("later", forKey: "k")
        try owner.changePasscode(to: .value("5678"), strength: .interactive, resealing: false)
        let program = store.backend()
        try program.unlock(.value("5678"))
        let lockbox = try program.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "left") == "old", "the control")
        try overwrite(path, earlier)
        expectError(.corrupt) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        var manifest = Manifest()
        let id = try #require(RecordID(name: String(path.split(separator: "/").last!)))
        manifest.add(id, earlier.withUnsafeBytes(RecordHash.init(hashing:)))
        let (hash, bytes) = manifest.encoded(maximumLength: .max)[0]
        try overwrite("\(store.directory)/items/manifest/\(hash.name)", bytes)
        try forger.replaceSlots { $0.closeOlderEpochs(listing: hash) { _ in true } }
        expectError(.authenticationFailed) { try program.slots }
        for key in ["k", "left"] {
            expectError(.authenticationFailed) { try lockbox.unarchiveObject(String.self, forKey: key) }
        }
    }

    /// The class of an item from before the first slot could be anybody's choice.
    @Test func noForgedEpochProvesAClass() throws {
        try store.backend().setUp(passcode: nil, items: ["k": .always])
        let forger = try Forger(store)
        // With the proof of an unlock, by a keybag that says that there were slots already.
        let (keybag, before) = (try readBytes(store.keybag), try store.openedKeybag())
        try forger.replaceSlots()
        let keys = try before.open(before.unlockKeys(with: nil)).keys
        let keyring = try Keyring(keybag: store.openedKeybag(), keys: keys)
        try overwriteBoth(store.keybag, keybag)
        let key = try ItemKey(prefix: TestStore.prefix, key: "k")
        let item = try #require(try store.backend().item(for: key, now: nil))
        let proven = item.with(ClassOrigin(.unlocked))
        try overwrite(store.path("k"), ItemEnvelope.seal(proven, id: keyring.itemID(key), keyring: keyring))
        try store.backend().setPasscode(.value("1234"), strength: .interactive, resealing: false)
        let program = store.backend()
        try program.unlock(.value("1234"))
        let lockbox = try program.lockbox()
        expectError(.invalidAttribute) { try lockbox.archiveObject("next", forKey: "k") }
        try forger.replaceSlots()
        expectError(.authenticationFailed) { try program.slots }
        expectError(.invalidAttribute) { try lockbox.archiveObject("next", forKey: "k") }
    }

    /// The keybag without slots is put in place before each system call.
    private func everyCall(
        passcode: String?,
        _ change: (EncryptedFileBackend) throws -> Void
    ) throws -> Int {
        var (number, refused) = (Interruption.start, 0)
        while true {
            number += Interruption.stride
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
        #expect(refused > 3 / Interruption.stride)
    }

    @Test func whoAcceptsARestoredStoreWithAPasscodeGetsOneWithSlots() throws {
        let refused = try everyCall(passcode: "1234") { try $0.acceptRestored(.passcode(.value("1234"))) }
        #expect(refused > 3 / Interruption.stride)
    }

    // MARK: Records of the kernel

    @Test(.needsKernelKeyring, arguments: ["rotateKeys", "changePasscode", "addSlot"])
    func aRecordThatOpensNothingGetsNoNextKeys(_ change: String) throws {
        defer { store.lockForEverybody() }
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        try store.publish([.unlocked: .random(), .afterFirstUnlock: .random()])
        #expect(try store.backend().lockState == .beforeFirstUnlock, "the control")
        switch change {
        case "rotateKeys": try owner.rotateKeys()
        case "changePasscode": try owner.changePasscode(to: .value("5678"), strength: .interactive)
        default:
            let code = RecoveryCode()
            try owner.addRecoveryCode(code, confirmation: .value(code.text))
        }
        #expect(try store.backend().lockState == .beforeFirstUnlock)
    }

    @Test(.needsKernelKeyring, arguments: UnlockScope.allCases, [true, false])
    func anUnlockedProgramGivesNothingToAForgedUnlock(_ scope: UnlockScope, isLocked: Bool) throws {
        defer { store.lockForEverybody() }
        let (forger, program) = try unlocked(scope)
        let lockbox = try program.lockbox()
        if isLocked { try program.lock() }
        for levels in [[UnlockLevel.afterFirstUnlock], UnlockLevel.allCases] {
            store.lockForEverybody()
            try store.publish(
                forger.replaceSlots(isLater: true).unlockKeys.filter { levels.contains($0.key) }
            )
            for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock] {
                expectError(.authenticationFailed, "\(levels)") {
                    try lockbox.archiveObject("next", forKey: "new", accessibility: accessibility)
                }
            }
            #expect(throws: LockboxError.self) { try program.rotateKeys() }
        }
        #expect(
            program.keyStore.known.process.withLock { $0.unlocked?.closings.last?.epoch } == 1,
            "no forged keybag takes that away"
        )
        store.lockForEverybody()
        try forger.removeSlots()
        expectError(.authenticationFailed) { try lockbox.archiveObject("next", forKey: "new") }
    }

    /// A lock leaves the key of `afterFirstUnlock` in the kernel, where every process of the user finds it.
    @Test(.needsKernelKeyring, arguments: UnlockScope.allCases)
    func theKeyThatALockLeavesOpensNothingElse(_ scope: UnlockScope) throws {
        defer { store.lockForEverybody() }
        let (forger, program) = try unlocked(scope)
        let lockbox = try program.lockbox()
        let key = try #require(try program.keyStore.current().unlockKeys[.afterFirstUnlock])
        try program.lock()
        let forged = try forger.replaceSlots(isLater: true) { $0.unlockKeys[.afterFirstUnlock] = key }
        try store.publish(forged.unlockKeys)
        expectError(.authenticationFailed) { try lockbox.archiveObject("next", forKey: "new") }
    }

    /// The forger's keybag is unlocked in the kernel when it is put in place.
    private func everyCallWithUnlock(
        _ levels: [UnlockLevel],
        _ accessibility: Accessibility,
        _ change: (EncryptedFileBackend) throws -> Void
    ) throws {
        var (number, refused) = (Interruption.start, 0)
        while true {
            number += Interruption.stride
            let store = try TestStore()
            defer { store.lockForEverybody() }
            try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
            let forger = try Forger(store)
            try store.backend().setUp(scope: .user)
            let slots = try store.openedKeybag().slots
            let interruption = Interruption(at: number) {
                guard let forged = try? forger.replaceSlots(isLater: true, keeping: slots) else { return }
                // Waits for no lock, as the program may have it.
                _ = try? UserUnlock(kernel: KernelKeyring()).remove(forged.storeID)
                try? store.publish(forged.unlockKeys.filter { levels.contains($0.key) })
            }
            let program = store.backend(interruption.calls)
            interruption.raise()
            do {
                try change(program)
                let present = try store.openedKeybag().slots.map(\.id)
                if present.count > slots.count {
                    #expect(throws: LockboxError.self, "before call \(number)") {
                        try program.lockbox()
                            .archiveObject("next", forKey: "new", accessibility: accessibility)
                    }
                }
            } catch { refused += 1 }
            if !interruption.hasHappened { break }
        }
        #expect(refused > 3 / Interruption.stride)
    }

    @Test(.needsKernelKeyring, arguments: [[.afterFirstUnlock], UnlockLevel.allCases])
    func whatIsAcceptedIsWhatThePasscodeOpens(_ levels: [UnlockLevel]) throws {
        try everyCallWithUnlock(levels, .afterFirstUnlock) {
            try $0.acceptRestored(.passcode(.value("1234")))
        }
    }

    @Test(.needsKernelKeyring) func whatIsChangedIsWhatThePasscodeOpens() throws {
        try everyCallWithUnlock(UnlockLevel.allCases, .whenUnlocked) {
            try $0.changePasscode(from: .value("1234"), to: .value("5678"), strength: .interactive)
        }
    }

    /// Another process changes the keys and locks the store. The kernel's keys open the classes that it keeps open.
    @Test(.needsKernelKeyring) func whoUsesTheUsersUnlockGoesOnAfterAChange() throws {
        defer { store.lockForEverybody() }
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked, "after": .afterFirstUnlock])
        let program = store.backend()
        try #require(try program.unlock(.value("1234"), scope: .user) == .user)
        let lockbox = try program.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "after") == "old")
        try owner.rotateKeys()
        try owner.changePasscode(to: .value("5678"), strength: .interactive)
        try owner.lock()
        #expect(try lockbox.unarchiveObject(forKey: "after") == "old")
        expectError(.interactionNotAllowed) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        try #require(try store.backend().unlock(.value("5678"), scope: .user) == .user)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "old")
    }

    // MARK: Older keybags

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
        #expect(try lockbox.unarchiveObject(forKey: "new") == "next")
        #expect(try lockbox.unarchiveObject(forKey: "k") == "old")
    }

    /// Whoever has the device key puts the files from before back, before each system call.
    @Test(arguments: ["changePasscode", "removePasscode", "rotateKeys"])
    func aChangeThatWasUndoneIsNotSaidToBeDone(_ name: String) throws {
        var (number, refused) = (Interruption.start, 0)
        while true {
            number += Interruption.stride
            let store = try TestStore()
            try store.backend().setUp(items: ["k": .whenUnlocked])
            let generation = try store.openedKeybag().generation
            let (keybag, deviceKey) = (try readBytes(store.keybag), try readBytes(store.deviceKey))
            let interruption = Interruption(at: number) { [store] in
                try? overwriteBoth(store.keybag, keybag)
                try? overwriteBoth(store.deviceKey, deviceKey)
            }
            let program = store.backend(interruption.calls, remembers: false)
            try program.unlock(.value("1234"))
            interruption.raise()
            var isSaid = true
            do {
                switch name {
                case "changePasscode": try program.changePasscode(to: .value("5678"), strength: .interactive)
                case "removePasscode": try program.removePasscode()
                default: try program.rotateKeys()
                }
            } catch { isSaid = false }
            // A new keybag beside the old device key opens with neither.
            if (try? store.openedKeybag())?.generation == generation {
                if isSaid {
                    expectError(.rolledBack, "\(name), before call \(number)") {
                        try program.lockbox().archiveObject("next", forKey: "new")
                    }
                } else {
                    refused += 1
                }
            }
            if !interruption.hasHappened { break }
        }
        #expect(refused > 3 / Interruption.stride)
    }

    /// A program of the same user raises the numbers that are remembered to the highest that count.
    @Test(.needsKernelKeyring, arguments: [47, 48])
    func aStoreThatIsAcceptedIsRememberedAgain(_ bits: Int) throws {
        try store.backend().setUp(items: ["k": .whenUnlocked])
        let own = try store.openedKeybag()
        store.memory.remember(
            own.storeID,
            own.owner.key,
            .init(generation: (1 << bits) - 1, epoch: (1 << 31) - 1)
        )
        expectError(.rolledBack) { try store.backend().slots }
        try store.backend().acceptRestored(.passcode(.value("1234")))
        let program = store.backend()
        try program.unlock(.value("1234"))
        let (keybag, deviceKey) = (try readBytes(store.keybag), try readBytes(store.deviceKey))
        try program.rotateKeys()
        try overwriteBoth(store.keybag, keybag)
        try overwriteBoth(store.deviceKey, deviceKey)
        expectError(.rolledBack) { try store.backend().slots }
        expectError(.rolledBack) { try program.slots }
    }

    @Test func aGenerationThatNobodyReachesMakesAProcessForgetNothing() throws {
        let owner = try store.backend(remembers: false).setUp(items: ["k": .whenUnlocked])
        let (keybag, deviceKey) = (try readBytes(store.keybag), try readBytes(store.deviceKey))
        try owner.rotateKeys()
        let program = store.backend(remembers: false)
        _ = try program.slots
        try store.resealKeybag { record in
            let highest = withUnsafeBytes(of: (UInt64(1) << 48).littleEndian, Array.init)
            record.replaceSubrange(8..<16, with: highest)
        }
        _ = try? program.slots
        try overwriteBoth(store.keybag, keybag)
        try overwriteBoth(store.deviceKey, deviceKey)
        expectError(.rolledBack) { try program.slots }
    }
}
