import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// An old state of the store is put back.
@Suite struct RollbackTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    /// Like a process that has just started, with the user's memory, or without one.
    private func backend(remembering: Bool = true) -> EncryptedFileBackend {
        store.backend(remembers: remembering)
    }

    private func expectRolledBack(_ backend: EncryptedFileBackend) throws {
        let lockbox = try backend.lockbox()
        let before = try store.snapshot()
        expectError(.rolledBack) { try lockbox.unarchiveObject(String.self, forKey: "dk") }
        expectError(.rolledBack) { try lockbox.archiveObject("new", forKey: "dk", accessibility: .always) }
        expectError(.rolledBack) { try lockbox.allKeys() }
        expectError(.rolledBack) { try backend.unlock(.value("1234")) }
        #expect(try backend.verify().findings.map(\.kind) == [.rolledBack])
        #expect(try store.snapshot() == before)
    }

    /// Every kind of change makes the keybag before it an old one.
    @Test(.needsKernelKeyring, arguments: 0..<5)
    func anOldKeybagIsRefusedByOtherProcesses(_ change: Int) throws {
        try store.backend().setUp(items: .everyClass)
        let own = backend()
        try own.unlock(.value("1234"))
        let old = try store.keyFiles()
        let code = RecoveryCode()
        switch change {
        case 0: try own.changePasscode(to: .value("new"), strength: .interactive)
        case 1: try own.removePasscode()
        case 2: try own.rotateKeys()
        case 3: try own.addRecoveryCode(code, confirmation: .value(code.text))
        default: try own.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        }
        try store.putBack(old)
        try expectRolledBack(backend())
    }

    /// Also if the one who wrote the newer keybag does not remember it, but another process has unlocked it.
    @Test(.needsKernelKeyring)
    func aKeybagThatWasUnlockedIsRemembered() throws {
        try store.backend().setUp(items: .everyClass)
        let writer = backend(remembering: false)
        try writer.unlock(.value("1234"))
        let old = try store.keyFiles()
        try writer.rotateKeys()
        try backend().unlock(.value("1234"))
        try store.putBack(old)
        try expectRolledBack(backend())
    }

    /// A process notices it without the kernel, if it had the store open before.
    @Test func anOldKeybagIsRefusedByAProcessThatHasSeenANewerOne() throws {
        try store.backend().setUp(items: .everyClass)
        let own = backend(remembering: false)
        try own.unlock(.value("1234"))
        let old = try store.keyFiles()
        try own.rotateKeys()
        try store.putBack(old)
        // Calls that need the keybag look at it.
        expectError(.rolledBack) { try own.lockbox().archiveObject("new", forKey: "ak") }
        expectError(.rolledBack) { try own.rotateKeys() }
        #expect(try readBytes(store.keybag) == old.keybag)
    }

    /// The old keybag is the one that the program has open.
    @Test(.needsKernelKeyring) func nothingIsSealedUnderAKeybagThatAnotherProgramHasReplaced() throws {
        try store.backend().setUp(items: .everyClass)
        let own = backend()
        try own.unlock(.value("1234"))
        #expect(try own.lockbox().unarchiveObject(forKey: "ak") == "old")
        let old = try store.keyFiles()
        let other = backend()
        try other.unlock(.value("1234"))
        try other.changePasscode(to: .value("new"), strength: .interactive)
        try store.putBack(old)
        try expectNothingIsSealed(own)
    }

    /// It is put back before the program that has replaced it looks at the next one.
    @Test(arguments: ["changePasscode", "removePasscode", "rotateKeys"])
    func nothingIsSealedUnderAKeybagThatWasReplaced(_ change: String) throws {
        try store.backend().setUp(items: .everyClass)
        let (old, generation) = (try store.keyFiles(), try store.openedKeybag().generation)
        let isPutBack = Protected(false)
        let putsBack = SystemCalls { [store] _ in
            // The last step leaves one device key.
            if let keybag = try? store.openedKeybag(), keybag.generation == generation + 2,
                (try? store.deviceKeys().count) == 1, isPutBack.raise()
            {
                try? store.putBack(old)
            }
            return nil
        }
        let own = store.backend(putsBack, remembers: false)
        try own.unlock(.value("1234"))
        #expect(throws: LockboxError.self) {
            switch change {
            case "changePasscode": try own.changePasscode(to: .value("new"), strength: .interactive)
            case "removePasscode": try own.removePasscode()
            default: try own.rotateKeys()
            }
        }
        try expectNothingIsSealed(own)
    }

    private func expectNothingIsSealed(_ backend: EncryptedFileBackend) throws {
        let (lockbox, before) = (try backend.lockbox(), try store.snapshot())
        for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock, .always] {
            for _ in 0..<2 {
                expectError(.rolledBack, "\(accessibility)") {
                    try lockbox.archiveObject("next", forKey: "new", accessibility: accessibility)
                }
            }
        }
        #expect(try store.snapshot() == before)
    }

    /// Without any memory: the items are newer than the keybag. Nothing is written in their place.
    @Test func itemsThatAreNewerThanTheKeybag() throws {
        let own = backend(remembering: false)
        try own.lockbox().archiveObject("old", forKey: "k")
        let old = try store.keyFiles()
        try own.rotateKeys()
        try store.putBack(old)
        let other = try backend(remembering: false).lockbox()
        expectError(.rolledBack) { try other.unarchiveObject(String.self, forKey: "k") }
        expectError(.rolledBack) { try other.archiveObject("new", forKey: "k") }
        expectError(.rolledBack) { try other.update("k", as: String.self) { $0 = "new" } }
        let findings = try backend(remembering: false).verify().findings
        #expect(findings.map(\.kind) == [.rolledBack])
        try other.removeObject(forKey: "k")
        #expect(try other.unarchiveObject(String.self, forKey: "k") == nil, "removed by name, it is gone")
    }

    @Test(
        .needsKernelKeyring,
        arguments: [true, false]
    )
    func aRestoredStoreIsAccepted(hasPasscode: Bool) throws {
        let own = backend()
        try own.setUp(passcode: hasPasscode ? "1234" : nil, items: ["k": .whenUnlocked])
        let copy = try TestStore(copying: store)
        try own.rotateKeys()
        try own.rotateKeys()
        let newest = try store.openedKeybag()
        try store.replace(with: copy)
        let restored = backend()
        expectError(.rolledBack) { try restored.lockState }
        if hasPasscode {
            expectError(.interactionNotAllowed) { try restored.acceptRestored() }
            #expect(throws: LockboxError.wrongPasscode) {
                try restored.acceptRestored(.passcode(.value("12345")))
            }
            expectError(.rolledBack) { try backend().lockState }
            expectError(.rolledBack, "nor did it remember what it could not accept") {
                try restored.lockState
            }
            expectError(.rolledBack) {
                try restored.lockbox().archiveObject("v", forKey: "n", accessibility: .always)
            }
        }
        let report = try restored.acceptRestored(hasPasscode ? .passcode(.value("1234")) : nil)
        #expect(report.resealedCount == 1 && report.isComplete)
        let accepted = try store.openedKeybag()
        #expect(accepted.generation > newest.generation)
        #expect(accepted.epoch > newest.epoch, "no epoch comes twice")
        let other = backend()
        if hasPasscode { try other.unlock(.value("1234")) }
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    /// Makes a store and rotates its keys. Returns the files as they were before.
    private func rotate() throws -> KeyFiles {
        let own = backend()
        try own.lockbox().archiveObject("old", forKey: "k")
        let old = try store.keyFiles()
        try own.rotateKeys()
        return old
    }

    @Test(.needsKernelKeyring)
    func noPasscodeIsSetForAnOldStore() throws {
        try store.putBack(rotate())
        let before = try store.snapshot()
        let code = RecoveryCode()
        expectError(.rolledBack) { try backend().setPasscode(.value("1234"), strength: .interactive) }
        expectError(.rolledBack) { try backend().addRecoveryCode(code, confirmation: .value(code.text)) }
        #expect(try store.snapshot() == before)
    }

    /// While the new passcode is asked for.
    @Test(.needsKernelKeyring)
    func noPasscodeIsSetForAStoreThatIsPutBackMeanwhile() throws {
        let old = try rotate()
        let putsBack = PasscodeSource.closure {
            try store.putBack(old)
            return Array("1234".utf8)
        }
        expectError(.rolledBack) { try backend().setPasscode(putsBack, strength: .interactive) }
        #expect(try store.keyFiles().keybag == old.keybag)
    }

    /// Puts a keybag without slots in place, made with the device key alone. Returns the owner's.
    private func removeSlots(_ before: Keybag) throws -> [UInt8] {
        let (now, owners) = (try store.openedKeybag(), try readBytes(store.keybag))
        var forged = try #require(try KeybagContents(after: before, unlockKeys: before.unlockKeys(with: nil)))
        (forged.generation, forged.epoch) = (now.generation + 1000, now.epoch)
        try forged.beginEpoch()
        try overwriteBoth(store.keybag, forged.encoded(deviceKey: store.deviceKeys()[0]))
        return owners
    }

    /// A process that has unlocked the store does not take it for one without slots, unless somebody removed them who could
    /// unlock it, too.
    @Test func whoHasTheDeviceKeyRemovesNoSlots() throws {
        try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let before = try store.openedKeybag()
        let owner = try store.backend().setUp()
        let keybag = try removeSlots(before)
        let lockbox = try owner.lockbox()
        expectError(.authenticationFailed) { try lockbox.archiveObject("next", forKey: "k") }
        expectError(.authenticationFailed) { try lockbox.archiveObject("next", forKey: "new") }
        try overwriteBoth(store.keybag, keybag)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "old")
        let other = store.backend()
        try other.unlock(.value("1234"))
        try other.removePasscode()
        try other.rotateKeys()
        try other.rotateKeys()
        try lockbox.archiveObject("next", forKey: "k")
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "next")
    }

    /// A program that knows nothing believes it, but no other one does.
    @Test(.needsKernelKeyring) func aForgedKeybagWithoutSlotsIsNotRemembered() throws {
        try backend().setUp(passcode: nil, items: ["k": .whenUnlocked])
        let before = try store.openedKeybag()
        try backend().setUp()
        let keybag = try removeSlots(before)
        expectError(.corrupt) { try backend(remembering: false).lockbox().allKeys() }
        expectError(.authenticationFailed) { try backend().lockbox().allKeys() }
        try overwriteBoth(store.keybag, keybag)
        let owner = backend()
        try owner.unlock(.value("1234"))
        #expect(try owner.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    /// A path has many spellings. A copy is the same store, wherever it is.
    @Test(.needsKernelKeyring)
    func anOldStoreIsRefusedUnderEveryPath() throws {
        try store.backend().setUp(items: .everyClass)
        let copy = try TestStore(copying: store)
        let own = backend()
        try own.unlock(.value("1234"))
        let (old, link) = (try store.keyFiles(), store.directory + "-link")
        try own.rotateKeys()
        try store.putBack(old)
        symlink(Path.parent(of: store.directory), link)
        let (parent, folder) = (Path.parent(of: store.directory), Path.name(of: store.directory))
        let spellings = [
            "\(store.directory)/", "\(parent)/./\(folder)", "\(parent)//\(folder)",
            "\(store.directory)/../\(folder)", "\(link)/\(folder)", "/proc/self/root\(store.directory)",
            copy.directory,
        ]
        for path in spellings {
            let memory = StoreMemory(store.memory.path, of: path)
            let storage = FileStorage(directory: path)
            let backend = EncryptedFileBackend(KeyStore(storage: storage, deviceKey: .stored, memory: memory))
            expectError(.rolledBack, "\(path)") { try backend.unlock(.value("1234")) }
        }
    }

    /// Each can be changed. The other one is then an old state of the same store, until its owner accepts it.
    @Test(.needsKernelKeyring) func oneOfTwoCopiesIsTheNewest() throws {
        try backend().setUp(items: ["k": .whenUnlocked])
        let copy = try TestStore(copying: store)
        func program(_ folder: TestStore) -> EncryptedFileBackend {
            folder.backend(memory: StoreMemory(store.memory.path, of: folder.directory))
        }
        try program(copy).unlock(.value("1234"))
        for (newest, other) in [(copy, store), (store, copy)] {
            let backend = program(newest)
            try backend.acceptRestored(.passcode(.value("1234")))
            #expect(try backend.lockbox().unarchiveObject(forKey: "k") == "old")
            try backend.rotateKeys()
            let before = try other.snapshot()
            expectError(.rolledBack) { try program(other).unlock(.value("1234")) }
            expectError(.rolledBack) { try program(other).lockbox().allKeys() }
            #expect(try other.snapshot() == before)
        }
        #expect(try store.openedKeybag().epoch > copy.openedKeybag().epoch, "no epoch comes twice")
    }

    /// Of the same epoch: it only has the keys that were removed since.
    @Test(.needsKernelKeyring) func aKeybagWithRetiredKeysIsAnOldOne() throws {
        let own = backend()
        try own.setUp(items: ["dk": .always])
        try own.changePasscode(to: .value("1234"), strength: .interactive, resealing: false)
        let (files, old) = (try store.keyFiles(), try store.openedKeybag())
        _ = try own.completeRotation(false, resealing: true) { _ in }
        let new = try store.openedKeybag()
        #expect(new.generation == old.generation + 1 && new.epoch == old.epoch)
        try store.putBack(files)
        try expectRolledBack(backend())
        expectError(.rolledBack) { try own.rotateKeys() }
    }

    /// The process that changes a store reads it again. With the keys from the kernel, it does not look into the vaults then.
    @Test(.needsKernelKeyring) func whatAnotherHasWrittenIsNotRememberedAsOwn() throws {
        let code = RecoveryCode()
        var (number, forged) = (Interruption.start, 0)
        while true {
            number += Interruption.stride
            let store = try TestStore()
            defer { store.lockForEverybody() }
            try store.backend().setUp(passcode: nil, recovery: code, items: ["k": .whenUnlocked])
            try store.backend().unlock(with: .recoveryCode(.value(code.text)), scope: .user)
            let isForged = Protected(false)
            let interruption = Interruption(at: number) {
                // 2²⁴ more.
                let done: Void? = try? store.resealKeybag { $0[8 + 3] += 1 }
                isForged.withLock { $0 = done != nil }
            }
            let backend = store.backend(interruption.calls)
            let id = try backend.keyStore.currentKeyring().storeID
            interruption.raise()
            _ = try? backend.keyChanges.rotateKeys(.renew)
            let known = store.memory.entry(of: id)?.numbers
            #expect(known.map { $0.generation < 1 << 24 } ?? true, "before call \(number)")
            if isForged.withLock({ $0 }) { forged += 1 }
            if !interruption.hasHappened { break }
        }
        #expect(forged > 10 / Interruption.stride)
    }

    @Test func changesOfManyStoresAtOnceAreAllRemembered() throws {
        let stores = (0..<32).map { StoreID(repeating: UInt8($0)) }
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for generation in 1...20 {
                for store in stores[(4 * thread)..<(4 * thread + 4)] {
                    let memory = StoreMemory(self.store.memory.path, of: nil)
                    memory.remember(store, nil, .init(generation: UInt64(generation), epoch: 1))
                    // From a process that read the keybag before, and was slow.
                    memory.remember(store, nil, .init(generation: UInt64(generation / 2), epoch: 1))
                }
            }
        }
        let memory = StoreMemory(store.memory.path, of: nil)
        #expect(Set(memory.entries.map(\.numbers.generation)) == [20])
    }

    /// A program that was stopped while it held the lock stops no other one.
    @Test func theLocksHolderHoldsNobodyUp() throws {
        let memory = StoreMemory(store.memory.path, of: nil)
        memory.remember(StoreID(repeating: 1), nil, .init(generation: 1, epoch: 1))
        let held = open(Path.parent(of: memory.path), O_RDONLY | O_CLOEXEC)
        defer { close(held) }
        try #require(flock(held, LOCK_EX | LOCK_NB) == 0)
        memory.remember(StoreID(repeating: 1), nil, .init(generation: 2, epoch: 1))
        #expect(memory.entry(of: StoreID(repeating: 1))?.numbers.generation == 2)
    }

    @Test func onlyTheStoresThatWereChangedLastAreRemembered() throws {
        let memory = StoreMemory(store.memory.path, of: nil)
        let count = StoreMemory.maximumEntries + 5
        func id(_ number: Int) -> StoreID {
            var id = StoreID(repeating: UInt8(number % 256))
            id[0] = UInt8(number / 256)
            return id
        }
        for number in 0..<count {
            memory.remember(id(number), nil, .init(generation: UInt64(number), epoch: 1))
        }
        #expect(memory.entries.map(\.numbers.generation) == (5..<count).map(UInt64.init))
    }

    @Test func theHighestGenerationIsAnError() throws {
        let deviceKey = DeviceKeySource.bytes([UInt8](repeating: 1, count: 32))
        let own = store.backend(deviceKey: deviceKey)
        try own.lockbox().archiveObject("v", forKey: "k")
        var contents = try #require(try KeybagContents(after: own.keyStore.current()))
        contents.generation = .max
        try overwriteBoth(store.keybag, contents.encoded(deviceKey: own.keyStore.current().keybag.deviceKey))
        let other = store.backend(deviceKey: deviceKey)
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "v")
        expectError(.corrupt) { try other.rotateKeys() }
    }
}
