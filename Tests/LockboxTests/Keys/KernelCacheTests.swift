import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxSealed

/// What a process remembers of the kernel's records, and for how long.
@Suite(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
struct KernelCacheTests {
    private let store: TestStore
    private let reader: EncryptedFileBackend

    /// The reader has the keys from the kernel, and remembers them.
    init() throws {
        store = try TestStore()
        let first = store.backend()
        try first.setPasscode(.value("1234"), strength: .interactive)
        try Lockbox(keyPrefix: TestStore.prefix, backend: first).archiveObject("v", forKey: "k")
        try #require(try store.backend().unlock(.value("1234"), scope: .user) == .user)
        reader = store.backend()
        #expect(try reader.lockState == .unlocked)
        #expect(remembers)
    }

    private func clear() { try? store.backend().lock(includingAfterFirstUnlock: true) }

    private var remembers: Bool {
        reader.keys.userRecords.withLock { $0?.outcomes.contains { $0.opened != nil } ?? false }
    }

    @Test(arguments: [true, false]) func aLockWipesWhatWasReadFromTheKernel(_ includesAll: Bool) throws {
        defer { clear() }
        try reader.lock(includingAfterFirstUnlock: includesAll)
        #expect(!remembers, "at once, and not at the next call")
    }

    @Test func soDoesAnothersLockAtTheNextCall() throws {
        defer { clear() }
        try store.backend().lock(includingAfterFirstUnlock: true)
        #expect(try reader.lockState == .beforeFirstUnlock)
        #expect(!remembers)
    }

    /// What a record opens of one keybag is not what it opens of the next: a rotation that was killed right after its new
    /// keybag leaves the record as it was.
    @Test func theKeysOfANewKeybagAreFoundUnderTheSameRecord() throws {
        defer { clear() }
        let isDead = Protected(false)
        let calls = SystemCalls { call in
            if isDead.withLock({ $0 }) { return .failure(EIO) }
            if call == .rename { isDead.withLock { $0 = true } }
            return nil
        }
        let rotating = EncryptedFileBackend(
            storage: FileStorage(directory: store.directory, calls: calls),
            deviceKey: .stored,
            kernel: KernelKeyring { isDead.withLock { $0 } ? EIO : nil }
        )
        try rotating.unlock(.value("1234"))
        expectError(.outcomeUnknown) { try rotating.rotateKeys() }
        let keyring = try reader.keys.currentKeyring()
        #expect(keyring.epoch == 2 && keyring.isComplete)
        #expect(try keyring.revision == reader.keys.own().keyring.revision)
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: reader)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "v")
    }
}
