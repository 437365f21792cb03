import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// A process's memory of the kernel's records, and for how long.
@Suite(.needsKernelKeyring)
struct KernelCacheTests {
    private let store: TestStore
    private let reader: EncryptedFileBackend

    /// The reader has the keys from the kernel, and remembers them.
    init() throws {
        store = try TestStore()
        try store.backend().setUp(items: ["k": .whenUnlocked], scope: .user)
        reader = store.backend()
        #expect(try reader.lockState == .unlocked)
        #expect(remembers)
    }

    private var remembers: Bool {
        reader.keyStore.userUnlock.records.withLock { $0?.outcomes.contains { $0.opened != nil } ?? false }
    }

    @Test(arguments: [true, false]) func aLockWipesWhatWasReadFromTheKernel(_ includesAll: Bool) throws {
        defer { store.lockForEverybody() }
        try reader.lock(includingAfterFirstUnlock: includesAll)
        #expect(!remembers, "at once, and not at the next call")
    }

    @Test func soDoesAnothersLockAtTheNextCall() throws {
        defer { store.lockForEverybody() }
        try store.backend().lock(includingAfterFirstUnlock: true)
        #expect(try reader.lockState == .beforeFirstUnlock)
        #expect(!remembers)
    }

    /// A record opens other keys of one keybag than of the next: the end of a rotation leaves the record as it was.
    @Test func theKeysOfANewKeybagAreFoundUnderTheSameRecord() throws {
        defer { store.lockForEverybody() }
        let rotating = store.backend()
        try rotating.unlock(.value("1234"))
        var looks = 0
        try rotating.rotateKeys { _ in
            looks += 1
            #expect((try? reader.lockState) == .unlocked)
        }
        #expect(looks > 0)
        let keyring = try reader.keyStore.currentKeyring()
        #expect(try keyring.revision == reader.keyStore.own().keyring.revision && keyring.isComplete)
        #expect(try reader.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    /// A rotation was killed right after its new keybag.
    @Test func theKeysOfANewKeybagAreFoundUnderTheRecordThatWasAnnounced() throws {
        defer { store.lockForEverybody() }
        let isDead = Protected(false)
        let calls = SystemCalls { call in
            if isDead.withLock({ $0 }) { return .failure(EIO) }
            if call == .rename { isDead.withLock { $0 = true } }
            return nil
        }
        let rotating = store.backend(calls, kernel: KernelKeyring { isDead.withLock { $0 } ? EIO : nil })
        try rotating.unlock(.value("1234"))
        expectError(.outcomeUnknown) { try rotating.rotateKeys() }
        let keyring = try reader.keyStore.currentKeyring()
        #expect(keyring.epoch == 2 && keyring.isComplete)
        #expect(try keyring.revision == reader.keyStore.own().keyring.revision)
        #expect(try reader.lockbox().unarchiveObject(forKey: "k") == "old")
    }
}
