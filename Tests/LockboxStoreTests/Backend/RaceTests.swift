import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore
@testable import LockboxTestProcess

/// Another process acts at the worst moment. Each backend stands for a process.
@Suite(.serialized, .timeLimit(.minutes(10))) struct RaceTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private func read(_ key: String, _ backend: EncryptedFileBackend) throws -> String? {
        try backend.lockbox().unarchiveObject(forKey: key)
    }

    // MARK: Rotations

    /// Rotates the keys of three items; `others` run when all are under new keys, and the old ones are still there.
    private func slowRotation(_ others: () throws -> Void) throws -> RotationReport {
        let slow = store.backend()
        for index in 0..<3 { try slow.lockbox().archiveObject("v", forKey: "\(index)") }
        var isDone = false
        let report = try slow.rotateKeys { progress in
            guard progress.completed == progress.total, !isDone else { return }
            isDone = true
            #expect(throws: Never.self) { try others() }
        }
        #expect(isDone)
        return report
    }

    /// A process keeps the keys of an epoch that was prepared and never began. No other keys may get its number.
    @Test func anEpochsNumberIsNeverUsedAgain() throws {
        let reader = store.backend()
        var prepared: UInt32 = 0
        _ = try slowRotation {
            let renames = Protected(0)
            let dying = store.backend(
                SystemCalls { call in
                    renames.withLock {
                        $0 += call == .rename ? 1 : 0
                        // The device key and the keybag that prepares the epoch.
                        return $0 > 2 ? .failure(EIO) : nil
                    }
                }
            )
            expectError(.outcomeUnknown) { try dying.rotateKeys() }
            let (keybag, value) = (try store.openedKeybag(), try read("0", reader))
            #expect(keybag.isPrepared && value == "v")
            prepared = keybag.epoch + 1
        }
        try store.backend().rotateKeys()
        #expect(try store.openedKeybag().epoch > prepared)
        for index in 0..<3 { #expect(try read("\(index)", reader) == "v") }
        #expect(try reader.lockbox().list().unreadable.isEmpty)
    }

    /// A keyring that is older than the keybag is read again before an item counts as tampered with.
    @Test func anOutdatedKeyringCallsNothingTamperedWith() throws {
        try store.lockbox().archiveObject("v", forKey: "k")
        let reader = store.backend()
        #expect(try read("k", reader) == "v")
        let old = try readBytes(store.path("k"))
        try store.backend().rotateKeys()
        // Of the second epoch, under the number of the first.
        var bytes = try readBytes(store.path("k"))
        bytes.replaceSubrange(8..<12, with: old[8..<12])
        try overwrite(store.path("k"), bytes)
        expectError(.corrupt) { try read("k", reader) }
        #expect(reader.keyStore.opened?.keyring.epoch == 2)
    }

    @Test func aSlowRotationCallsNothingDamagedThatIsUnderNewerKeys() throws {
        let report = try slowRotation {
            try store.backend().rotateKeys()
            try store.backend().rotateKeys()
        }
        #expect(report.unreadableItems.isEmpty)
    }

    // MARK: Passcode and lock

    /// The locked item is open to everybody now.
    @Test func aPasscodeThatIsRemovedUnlocksTheOthers() throws {
        let locked = try store.backend().setUp(items: ["k": .whenUnlocked])
        let other = store.backend()
        try other.unlock(.value("1234"))
        try locked.lock()
        expectError(.interactionNotAllowed) { try read("k", locked) }
        try other.removePasscode()
        #expect(try read("k", locked) == "old")
    }

    @Test func ofTwoPasscodesTheFirstIsSet() throws {
        let other = store.backend()
        let error = lockboxError {
            let late = PasscodeSource.closure {
                try other.setPasscode(.value("2"), strength: .interactive)
                return Array("1".utf8)
            }
            try store.backend().setPasscode(late, strength: .interactive)
        }
        #expect(error?.code == .passcodeAlreadySet)
        try store.backend().unlock(.value("2"))
    }

    @Test func aStoreIsUnlockedForSomebodyIfItIsUnlocked() throws {
        let backend = store.backend()
        try backend.lockbox().archiveObject("v", forKey: "k")
        try store.backend().setUp()
        #expect(try backend.lockState == .beforeFirstUnlock && backend.status()?.unlockScope == nil)
        try backend.unlock(.value("1234"))
        #expect(try backend.lockState == .unlocked && backend.status()?.unlockScope == .process)
    }

    /// The item is being written while its key is destroyed.
    @Test func aWriterBesideTheRemovalOfThePasscode() throws {
        let other = try store.backend().setUp(items: ["first": .whenUnlocked])
        try other.lockbox().removeObject(forKey: "first")
        let isUp = Protected(false)
        let outcome = Protected<LockboxError.Code?>(nil)
        let writer = store.backend(
            SystemCalls { call in
                guard call == .rename else { return nil }  // it has the lock
                let isNow = isUp.withLock { isUp in
                    defer { isUp = false }
                    return isUp
                }
                if isNow { outcome.withLock { $0 = lockboxError { try other.removePasscode() }?.code } }
                return nil
            }
        )
        try writer.unlock(.value("1234"))
        isUp.withLock { $0 = true }
        try writer.lockbox().archiveObject("v", forKey: "k", accessibility: .whenPasscodeSetThisDeviceOnly)
        #expect(outcome.withLock { $0 } == .lockTimeout, "it has waited for the writer, in vain")
        // The next call carries on, like after a kill.
        #expect(throws: LockboxError.passcodeNotSet) { try store.backend().removePasscode() }
        #expect(try read("k", store.backend()) == nil)
        #expect(try store.backend().verify().findings.map(\.kind) == [.interrupted])
        #expect(try store.backend().rotateKeys().isComplete)
        #expect(try store.backend().verify().findings.isEmpty)
    }

    // MARK: Unlocked for the user

    /// A process that the kernel refuses changes the passcode: what the kernel has is worth nothing then, and costs readers
    /// nothing either.
    @Test(.needsKernelKeyring)
    func aStaleRecordHoldsNobodyUp() throws {
        try store.backend().setUp(items: ["k": .always], scope: .user)
        defer { store.lockForEverybody() }
        try store.makeKernelStale()
        let calls = Protected(0)
        let reader = store.backend(
            SystemCalls { call in
                if call == .flock { calls.withLock { $0 += 1 } }
                return nil
            }
        )
        for _ in 0..<10 { #expect(try read("k", reader) == "old") }
        #expect(calls.withLock { $0 } == 0, "it waits for nobody")
        // A later unlock is found.
        try store.backend().unlock(.value("5678"), scope: .user)
        #expect(try reader.lockState == .unlocked)
    }

    /// A record that could not be read was never known to be worth nothing.
    @Test(.needsKernelKeyring, arguments: [1, .max])
    func aKernelThatFailsForAMomentHidesNoUnlock(failures: Int) throws {
        try store.backend().setUp(scope: .user)
        defer { store.lockForEverybody() }
        var number = 0
        while true {
            number += 1
            let (calls, first, isOver) = (Protected(0), number, Protected(false))
            let reader = store.backend(
                kernel: KernelKeyring {
                    let since = calls.next() - first
                    return !isOver.withLock { $0 } && (0..<failures).contains(since) ? ENOMEM : nil
                }
            )
            _ = try reader.lockState
            if calls.withLock({ $0 }) < number { break }
            isOver.withLock { $0 = true }
            #expect(try reader.lockState == .unlocked, "after the failure of call \(number)")
        }
        #expect(number > 2)
    }

    // MARK: Backups

    @Test func anImportBesideARotationWritesNothingIfAClassIsLocked() throws {
        let source = try TestStore()
        let path = Path.parent(of: source.directory) + "/backup"
        for (key, accessibility) in [("d", Accessibility.always), ("c", .afterFirstUnlock)] {
            try source.lockbox().archiveObject("v", forKey: key, accessibility: accessibility)
        }
        try source.backend().exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
        let locked = try store.backend().setUp()
        let other = store.backend()
        try other.unlock(.value("1234"))
        try locked.lock(includingAfterFirstUnlock: true)
        try other.rotateKeys()
        let before = try store.snapshot()
        let error = lockboxError { try locked.importBackup(from: path, with: .passphrase(.value("p"))) }
        #expect(error?.code == .interactionNotAllowed)
        #expect(try store.snapshot() == before)
    }
}
