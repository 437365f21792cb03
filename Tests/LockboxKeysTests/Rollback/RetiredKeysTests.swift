import CLinux
import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Old keys do not come back: by a forged keybag, by a copy that is put back, or by a record whose time is over.
@Suite(.tags(.waits), .serialized) struct RetiredKeysTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private func backend(remembering: Bool = true) -> EncryptedFileBackend {
        store.backend(remembers: remembering)
    }

    /// Writes a keybag with the present keys and slots, but another number and epoch.
    private func forge(_ change: (inout KeybagContents) -> Void) throws {
        let other = backend(remembering: false)
        if try !other.slots.isEmpty { try other.unlock(.value("new")) }
        var contents = try #require(try KeybagContents(after: other.keyStore.current()))
        change(&contents)
        try overwriteBoth(store.keybag, contents.encoded(deviceKey: store.deviceKeys()[0]))
    }

    // MARK: Forged numbers

    /// The old keys are still there, because not all items have been resealed.
    @Test(
        .needsKernelKeyring,
        arguments: [true, false]
    )
    func aRetiredEpochWithAHigherNumberIsRefused(byAnother: Bool) throws {
        try store.backend().setUp(items: .everyClass)
        let own = backend(remembering: byAnother)
        try own.unlock(.value("1234"))
        let epoch = try own.keyStore.current().keybag.epoch
        try own.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        try forge {
            ($0.epoch, $0.generation) = (epoch, $0.generation + 5)
            $0.closeOlderEpochs(listing: nil) { _ in true }
        }
        let before = try store.snapshot()
        let user = byAnother ? backend() : own
        expectError(.rolledBack) {
            try user.lockbox().archiveObject("new", forKey: "ak", accessibility: .always)
        }
        expectError(.rolledBack) { try user.rotateKeys() }
        #expect(try store.snapshot() == before)
        try user.acceptRestored(.passcode(.value("new")))
        #expect(try user.keyStore.current().keybag.epoch > epoch + 1)
    }

    /// The holder of the device key can write it into a store without slots.
    @Test(.needsKernelKeyring)
    func aNumberThatNothingCanFollowIsNotRemembered() throws {
        try backend().lockbox().archiveObject("old", forKey: "k")
        try backend().rotateKeys()
        let own = try store.keyFiles()
        let seer = backend()
        for (generation, epoch) in [(UInt64.max - 1, UInt32(2)), (1 << 48, 2), (100, .max - 1)] {
            try forge { ($0.generation, $0.epoch) = (generation, epoch) }
            for backend in [backend(), seer] { _ = try? backend.lockbox().allKeys() }
            try store.putBack(own)
            for backend in [backend(), seer] {
                #expect(try backend.lockbox().unarchiveObject(forKey: "k") == "old")
                try backend.lockbox().archiveObject("old", forKey: "k")
            }
        }
        #expect(try backend().rotateKeys().isComplete)
    }

    // MARK: Interrupted changes

    /// The process was killed when the new passcode opened the store, and before the new keys were used.
    @Test func aChangeThatWasInterruptedIsReported() throws {
        let own = try store.backend().setUp(items: .everyClass)
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

    // MARK: Memory

    /// A process that unlocks the store for the user keeps no keys itself. One that finds the store unlocked knows only what any
    /// program of the user can put into the kernel.
    @Test(.needsKernelKeyring) func anUnlockForTheUserRemembers() throws {
        let own = try store.backend().setUp(items: .everyClass)
        defer { try? own.lock(includingAfterFirstUnlock: true) }
        let old = try store.keyFiles()
        try own.rotateKeys()
        store.memory.forget(nil)
        #expect(try backend().unlock(.value("1234"), scope: .user) == .user)
        let present = try store.keyFiles()
        try store.putBack(old)
        // Not by what it reads: items of the new keys name the old keybag too.
        expectError(.rolledBack) { try backend().lockState }
        try store.putBack(present)
        store.memory.forget(nil)
        #expect(try backend().lockbox().unarchiveObject(forKey: "ak") == "old")
        #expect(store.memory.entries.isEmpty)
    }

    /// Without a memory of the user, this process itself has seen a newer one.
    @Test func aProcessAcceptsWhatItRefused() throws {
        try store.backend().setUp(items: .everyClass)
        let own = backend(remembering: false)
        try own.unlock(.value("1234"))
        let copy = try TestStore(copying: store)
        try own.rotateKeys()
        try own.rotateKeys()
        let last = try own.keyStore.current().keybag
        try store.replace(with: copy)
        expectError(.rolledBack) { try own.rotateKeys() }
        #expect(try own.acceptRestored(.passcode(.value("1234"))).isComplete)
        let accepted = try own.keyStore.current().keybag
        #expect(accepted.generation > last.generation && accepted.epoch > last.epoch)
        #expect(try own.lockbox().unarchiveObject(forKey: "ak") == "old")
    }

    // MARK: Records in the kernel

    /// Another program of the user can make the kernel keep the record.
    @Test(.needsKernelKeyring)
    func aRecordWhoseTimeIsOverOpensNothingAnyMore() throws {
        let own = try store.backend().setUp(items: .everyClass)
        defer { try? own.lock(includingAfterFirstUnlock: true) }
        #expect(try store.backend().unlock(.value("1234"), scope: .user, timeout: .seconds(3)) == .user)
        let serial = try #require(try store.serial(of: .unlocked))
        try #require(kernel_key_set_timeout(serial, 0) >= 0)
        let reader = try store.lockbox()
        #expect(try reader.unarchiveObject(forKey: "ak") == "old", "the control: it is open")
        let end = ContinuousClock.now + .seconds(30)
        var isOpen = true
        while isOpen, .now < end {
            usleep(100_000)
            do { isOpen = try reader.unarchiveObject(String.self, forKey: "ak") != nil } catch LockboxError
                .interactionNotAllowed
            { isOpen = false }
        }
        #expect(!isOpen)
        #expect(try store.serial(of: .unlocked) == serial, "the control: the kernel has it still")
    }

    /// The keybag cannot be opened, or is refused; what the kernel holds must not stay.
    @Test(
        .needsKernelKeyring,
        arguments: [
            ("no device key", .corrupt), ("damaged", .authenticationFailed), ("old", .rolledBack),
        ] as [(String, LockboxError.Code)]
    )
    func aStoreThatIsRefusedCanBeLocked(_ state: String, _ code: LockboxError.Code) throws {
        let own = try store.backend().setUp(items: .everyClass)
        defer { try? own.lock(includingAfterFirstUnlock: true) }
        let old = try store.keyFiles()
        try own.rotateKeys()
        let present = try store.keyFiles()
        #expect(try backend().unlock(.value("1234"), scope: .user) == .user)
        let id = try own.keyStore.currentKeyring().storeID
        func serials() -> [KernelKeyring.Serial] {
            SharedUnlock.KeyKind.allCases.compactMap { KernelKeyring().serial(of: $0.name(id)) }
        }
        #expect(!serials().isEmpty)
        switch state {
        case "no device key": try overwriteBoth(store.deviceKey, [UInt8](repeating: 1, count: 32))
        case "damaged": try flipLastBytes(of: store.keybag)
        default: try store.putBack(old)
        }
        let other = backend()
        expectError(code, "the control: it is refused") { try other.lockState }
        try other.lock(includingAfterFirstUnlock: true)
        #expect(serials().isEmpty)
        try store.putBack(present)
        #expect(try backend().lockState == .beforeFirstUnlock)
    }

    // MARK: Slots

    /// The same key may open less in a slot that was added before.
    @Test func theSlotThatOpensMostIsTakenFirst() throws {
        let own = try store.backend().setUp(recovery: RecoveryCode())
        let key = [UInt8](repeating: 9, count: 32)
        try own.addSlot(.key(.bytes(key)), label: "a service")
        try own.addSlot(.key(.bytes(key)), label: "everything", opensAllClasses: true)
        let other = store.backend()
        try other.unlock(with: .key(.bytes(key)))
        #expect(try other.lockState == .unlocked)
    }

    /// A chip that knows the slot, and refuses the PIN, says more than one that does not.
    @Test func theAnswerOfTheRightChipIsReported() throws {
        let own = try store.backend().setUp(recovery: RecoveryCode())
        for chip: UInt8 in 1...2 {
            try own.addSlot(Chip(number: chip), label: "\(chip)", opensAllClasses: true)
        }
        for answer in [LockboxError.wrongPasscode, .accessDenied(endpoint: "chip", reason: "locked out")] {
            expectError(answer.code) { try store.backend().unlock(with: Chip(number: 1, answer: answer)) }
        }
        expectError(.notReachable) { try store.backend().unlock(with: Chip(number: 3)) }
        try store.backend().unlock(with: Chip(number: 2))
    }

    /// A chip opens its own slots only.
    private struct Chip: UnlockMethod {
        let number: UInt8
        var answer: LockboxError?

        var kind: SlotKind { .tpm }

        func enroll(salt: [UInt8]) throws -> SlotEnrollment {
            SlotEnrollment(parameters: [number], secret: salt)
        }

        func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
            guard parameters == [number] else {
                throw LockboxError.notReachable(endpoint: "chip", reason: "it is another chip's")
            }
            if let answer { throw answer }
            return salt
        }
    }
}
