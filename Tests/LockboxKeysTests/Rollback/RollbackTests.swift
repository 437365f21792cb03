import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// An old state of the store is put back.
@Suite struct RollbackTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    // MARK: Writes

    private func expectNothingIsSealed(_ backend: EncryptedFileBackend) throws {
        let (lockbox, before) = (try backend.lockbox(), try store.snapshot())
        for accessibility in [Accessibility.whenUnlocked, .always] {
            for _ in 0..<2 {
                expectError(.rolledBack, "\(accessibility)") {
                    try lockbox.archiveObject("next", forKey: "new", accessibility: accessibility)
                }
            }
        }
        #expect(try store.snapshot() == before)
    }

    /// It is the one that the program has open.
    @Test func nothingIsSealedUnderAKeybagThatAnotherProgramHasReplaced() throws {
        let own = try store.backend().setUp(items: ["k": .whenUnlocked])
        let (old, other) = (try store.keyFiles(), store.backend())
        try other.unlock(.value("1234"))
        try other.changePasscode(to: .value("new"), strength: .interactive)
        try store.putBack(old)
        try expectNothingIsSealed(own)
    }

    /// It is put back before the program that has replaced it looks at the next one.
    @Test func nothingIsSealedUnderAKeybagThatTheProgramHasReplaced() throws {
        try store.backend().setUp(items: ["k": .whenUnlocked])
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
        #expect(throws: LockboxError.self) { try own.rotateKeys() }
        try expectNothingIsSealed(own)
    }

    /// Without any memory: the items are newer than the keybag. Nothing is written in their place.
    @Test func itemsThatAreNewerThanTheKeybagAreNotReplaced() throws {
        let own = store.backend(remembers: false)
        try own.lockbox().archiveObject("old", forKey: "k")
        let old = try store.keyFiles()
        try own.rotateKeys()
        try store.putBack(old)
        let other = try store.backend(remembers: false).lockbox()
        expectError(.rolledBack) { try other.unarchiveObject(String.self, forKey: "k") }
        expectError(.rolledBack) { try other.archiveObject("new", forKey: "k") }
        expectError(.rolledBack) { try other.update("k", as: String.self) { $0 = "new" } }
        let findings = try store.backend(remembers: false).verify().findings
        #expect(findings.map(\.kind) == [.rolledBack])
        try other.removeObject(forKey: "k")
        #expect(try other.unarchiveObject(String.self, forKey: "k") == nil, "removed by name, it is gone")
    }

    // MARK: Accepting

    /// Its user remembers a newer one, or the process itself.
    @Test(arguments: [true, false], [true, false])
    func aRestoredStoreIsAccepted(hasPasscode: Bool, isRunning: Bool) throws {
        let own = try store.backend(remembers: !isRunning)
            .setUp(passcode: hasPasscode ? "1234" : nil, items: ["k": .whenUnlocked])
        let copy = try TestStore(copying: store)
        for _ in 0..<2 { try own.rotateKeys() }
        let newest = try store.openedKeybag()
        try store.replace(with: copy)
        let restored = isRunning ? own : store.backend()
        expectError(.rolledBack) { _ = try restored.slots }
        if hasPasscode {
            expectError(.interactionNotAllowed) { try restored.acceptRestored() }
            #expect(throws: LockboxError.wrongPasscode) {
                try restored.acceptRestored(.passcode(.value("12345")))
            }
            expectError(.rolledBack, "nor did it remember what it could not accept") {
                _ = try restored.slots
            }
        }
        let report = try restored.acceptRestored(hasPasscode ? .passcode(.value("1234")) : nil)
        #expect(report.resealedCount == 1 && report.isComplete)
        let accepted = try store.openedKeybag()
        #expect(accepted.generation > newest.generation)
        #expect(accepted.epoch > newest.epoch, "no epoch comes twice")
        let other = store.backend()
        if hasPasscode { try other.unlock(.value("1234")) }
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    // MARK: Places

    /// A path has many spellings. A copy is the same store, wherever it is.
    @Test func anOldStoreIsRefusedUnderEveryPath() throws {
        let own = try store.backend().setUp()
        let copy = try TestStore(copying: store)
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

    // MARK: Changes that a kill has ended

    /// The process was killed when the new passcode opened the store, and before the new keys were used.
    @Test func aChangeThatWasInterruptedIsReported() throws {
        let own = try store.backend().setUp(items: ["k": .whenUnlocked])
        #expect(try own.status()?.isInterrupted == false && own.verify().findings.isEmpty)
        var next = try KeybagRewrite(after: own.keyStore.current())
        try next.contents.beginEpoch()
        let stages = next.stages(after: try own.keyStore.current().keybag)
        try overwriteBoth(store.keybag, stages[0].encoded(deviceKey: store.deviceKeys()[0]))
        let other = store.backend()
        try other.unlock(.value("1234"))
        #expect(try other.status()?.isInterrupted == true)
        #expect(try other.verify().findings.map(\.kind) == [.interrupted])
        #expect(try other.rotateKeys().isComplete)
        #expect(try other.status()?.isInterrupted == false && other.verify().findings.isEmpty)
    }
}
