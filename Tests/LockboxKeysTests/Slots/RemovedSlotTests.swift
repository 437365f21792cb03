import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The fate of a process whose own slot is removed.
@Suite(.serialized) struct RemovedSlotTests {
    private let store: TestStore
    private let code = RecoveryCode()
    private let key = DeviceKeySource.bytes([UInt8](repeating: 7, count: 32))

    init() throws { store = try TestStore() }

    /// A store with an item, a passcode, a recovery code and a key.
    private func makeStore() throws {
        try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
            .addSlot(.key(key), label: "", opensAllClasses: true)
    }

    private var recovery: SecretUnlock { .recoveryCode(.value(code.text)) }

    /// - Parameter remove: Removes the slot that has unlocked the store.
    private func check(_ method: any UnlockMethod, _ remove: (EncryptedFileBackend) throws -> RotationReport)
        throws
    {
        let backend = store.backend()
        try backend.unlock(with: method)
        let report = try remove(backend)
        #expect(
            report.isComplete && !report.isPostponed && report.resealedCount == 1,
            "\(report.unreadableItems)"
        )
        // It stays unlocked until it locks, with all that an unlocked store can do.
        #expect(try backend.lockbox().unarchiveObject(forKey: "k") == "old")
        #expect(try backend.lockState == .unlocked)
        try backend.lockbox().archiveObject("w", forKey: "k")
        #expect(try backend.rotateKeys().isComplete)
        try backend.lock(includingAfterFirstUnlock: true)
        #expect(try backend.lockState == .beforeFirstUnlock)
        expectError(.interactionNotAllowed) {
            try backend.lockbox().unarchiveObject(String.self, forKey: "k")
        }
        let other = store.backend()
        try other.unlock(with: recovery)
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "w")
    }

    @Test func thePasscodeThatUnlockedTheStoreIsRemoved() throws {
        try makeStore()
        try check(.passcode(.value("1234"))) { try $0.removePasscode() }
    }

    @Test func theKeyThatUnlockedTheStoreIsRemoved() throws {
        try makeStore()
        try check(.key(key)) { backend in
            try backend.removeSlot(#require(backend.slots.first { $0.kind == .key }).id)
        }
    }

    /// A process that removed its own slot has no keys for what others write afterwards.
    @Test func whatOthersChangeAfterwardsIsLocked() throws {
        try makeStore()
        let backend = store.backend()
        try backend.unlock(.value("1234"))
        try backend.removePasscode()
        let other = store.backend()
        try other.unlock(with: recovery)
        try other.rotateKeys()
        expectError(.interactionNotAllowed) {
            try backend.lockbox().unarchiveObject(String.self, forKey: "k")
        }
    }

    /// Somebody may have put back a copy from before there was a passcode.
    @Test func aRestoredStoreThatNeedsNoPasscodeIsNoneWithOne() throws {
        try store.lockbox().archiveObject("v", forKey: "k")
        let before = try store.snapshot()
        #expect(throws: LockboxError.passcodeNotSet) {
            try store.backend().acceptRestored(.passcode(.value("1234")))
        }
        #expect(throws: LockboxError.slotNotFound(slot: "recovery-code")) {
            try store.backend().acceptRestored(recovery)
        }
        #expect(try store.snapshot() == before)
        #expect(try store.backend().acceptRestored().resealedCount == 1)
    }
}
