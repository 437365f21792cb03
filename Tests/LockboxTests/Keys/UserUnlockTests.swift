import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium
@testable import LockboxTestProcess

/// One unlock, or one lock, for every process of the user.
@Suite struct UserUnlockTests: UserUnlockFixture {
    let store: TestStore
    let backend: EncryptedFileBackend

    init() throws { (store, backend) = try Self.lockedStore() }

    private func process(_ accessibility: Accessibility) throws -> Int32 {
        try TestProcess("read", store.directory, accessibility.rawValue).wait()
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func oneUnlockOpensTheStoreForEveryProcessOfTheUser() throws {
        defer { clear() }
        let other = store.backend()
        #expect(try readable(other) == untilLock)
        #expect(try other.unlockScope == nil)
        #expect(try process(.whenUnlocked) == 3)

        #expect(try store.backend().unlock(.value("1234"), scope: .user) == .user)
        for backend in [backend, other, store.backend()] {
            #expect(try readable(backend) == all)
            #expect(try backend.lockState == .unlocked)
            #expect(try backend.unlockScope == .user)
        }
        #expect(other.keys.derivations.withLock { $0 } == 0)
        for accessibility in Accessibility.allCases { #expect(try process(accessibility) == 0) }

        try store.backend().lock()
        for backend in [backend, other, store.backend()] {
            #expect(try readable(backend) == afterLock)
            #expect(try backend.lockState == .locked)
            #expect(try backend.unlockScope == nil)
        }
        #expect(try process(.whenUnlocked) == 3)
        #expect(try process(.afterFirstUnlock) == 0)

        try store.backend().lock(includingAfterFirstUnlock: true)
        #expect(try serials().isEmpty)
        for backend in [other, store.backend()] {
            #expect(try readable(backend) == untilLock)
            #expect(try backend.lockState == .beforeFirstUnlock)
        }
        #expect(try process(.afterFirstUnlock) == 3)
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func whoUnlockedForItselfLocksForItself() throws {
        defer { clear() }
        let own = store.backend()
        #expect(try own.unlock(.value("1234")) == .process)
        #expect(try serials().isEmpty)
        #expect(try own.unlockScope == .process)
        try store.backend().unlock(.value("1234"), scope: .user)
        try store.backend().lock(includingAfterFirstUnlock: true)
        #expect(try readable(own) == all)

        // Unlocking for everybody hands the keys over.
        #expect(try own.unlock(.value("1234"), scope: .user) == .user)
        try store.backend().lock()
        #expect(try readable(own) == afterLock)
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func aTimeLimitEndsIt() throws {
        defer { clear() }
        let start = ContinuousClock.now
        #expect(try backend.unlock(.value("1234"), scope: .user, timeout: .seconds(2)) == .user)
        let found = try readable(store.backend())
        // The kernel's seconds are those of its clock: the first of the two may be over at once.
        #expect(found == all || start.duration(to: .now) > .seconds(1))
        // Of the kernel, in whole seconds: nothing else can be waited for.
        let end = Date(timeIntervalSinceNow: 30)
        while try backend.lockState == .unlocked, Date() < end {}
        #expect(try backend.lockState == .locked)
        #expect(try readable(backend) == afterLock)
        #expect(try readable(store.backend()) == afterLock)
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func aStoreThatCannotBeWrittenTo() throws {
        defer { clear() }
        let backend = store.backend(SystemCalls { $0 == .flock ? .failure(EROFS) : nil })
        #expect(try backend.unlock(.value("1234"), scope: .user) == .user)
        #expect(try readable(store.backend()) == all)
        try backend.lock()
        #expect(try readable(store.backend()) == afterLock)
    }

    /// Whatever fails on the way.
    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func anUnlockThatThrowsIsNone() throws {
        defer { clear() }
        var number = 0
        var isOver = false
        while !isOver {
            number += 1
            try store.backend().lock(includingAfterFirstUnlock: true)
            let (isUp, calls, last) = (Protected(false), Protected(0), number)
            let backend = store.backend(
                SystemCalls { _ in isUp.withLock { $0 } && calls.next() >= last ? .failure(EIO) : nil }
            )
            _ = try backend.lockState
            isUp.withLock { $0 = true }
            let error = lockboxError { try backend.unlock(.value("1234"), scope: .user) }
            isOver = calls.withLock { $0 } < number
            let state = try store.backend().lockState
            #expect(state == (error == nil ? .unlocked : .beforeFirstUnlock), "call \(number)")
        }
        #expect(number > 10)
    }

    /// What is to be wiped is wiped, also if the folder has gone, or cannot be read.
    @Test(arguments: UnlockScope.allCases) func aStoreThatCannotBeReadIsLocked(_ scope: UnlockScope) throws {
        defer { clear() }
        let isFailing = Protected(false)
        let backend = store.backend(SystemCalls { _ in isFailing.withLock { $0 } ? .failure(EIO) : nil })
        try backend.unlock(.value("1234"), scope: scope)
        #expect(try readable(backend) == all)
        isFailing.withLock { $0 = true }
        _ = try? backend.lock()
        isFailing.withLock { $0 = false }
        #expect(try readable(backend) == afterLock)
        isFailing.withLock { $0 = true }
        _ = try? backend.lock(includingAfterFirstUnlock: true)
        isFailing.withLock { $0 = false }
        #expect(try readable(backend) == untilLock)
    }

    @Test func aPasscodeThatAnotherProcessHasSetLocks() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("value", forKey: "k")
        try store.backend().setPasscode(.value("1234"), strength: .interactive)
        let backend = try #require(lockbox.backend as? EncryptedFileBackend)
        try backend.lock()
        #expect(try backend.lockState == .beforeFirstUnlock)
        expectError(.interactionNotAllowed) { try lockbox.unarchiveObject(String.self, forKey: "k") }
    }

    // MARK: While the keybag changes

    /// Of the keys that the kernel's record of a level opens.
    private func epochsInKernel(_ level: UnlockLevel) throws -> Set<UInt32> {
        let keybag = try store.openedKeybag()
        let records = try UserUnlock(kernel: KernelKeyring()).records(of: keybag)
        let record = try #require(records.map(\.record).first { $0.level == level })
        let keys = try keybag.open([level: record.key]).keys.filter { $0.id.role.level == level }
        return Set(keys.map(\.id.epoch))
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func aChangedPasscodeOrKeysLeaveItOpen() throws {
        defer { clear() }
        #expect(try backend.unlock(.value("1234"), scope: .user, timeout: .seconds(1000)) == .user)
        let reader = store.backend()
        #expect(try readable(reader) == all)

        // By processes that have the keys from the kernel only.
        try store.backend().changePasscode(to: .value("5678"), strength: .interactive)
        #expect(try readable(reader) == all)
        #expect(try store.backend().rotateKeys().resealedCount == 7)
        for backend in [reader, store.backend()] {
            #expect(try readable(backend) == all)
            #expect(try backend.unlockScope == .user)
        }
        #expect(
            try epochsInKernel(.afterFirstUnlock) == [4],
            "the dropped keys are gone from the kernel, too"
        )
        let id = try backend.keys.currentKeyring().storeID
        let key = try #require(
            KernelKeyring().serial(of: SharedUnlock.Place(level: .unlocked, isOfNextKeybag: false).name(id))
        )
        let deadline = KernelKeyring().read(key, maximum: 4096) {
            $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        }
        let left = Double(try #require(deadline)) - Date().timeIntervalSince1970
        #expect((900...1001).contains(left), "the time limit is the one that was given")

        try store.backend().lock()
        for backend in [reader, store.backend()] { #expect(try readable(backend) == afterLock) }
        #expect(throws: LockboxError.wrongPasscode) { try reader.unlock(.value("1234")) }
    }

    /// Between the new keybag and the kernel's record for it there is an instant, which nobody is to notice.
    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func whileThePasscodeChangesAndTheKeysRotateEverythingStaysOpen() throws {
        defer { clear() }
        #expect(try backend.unlock(.value("1234"), scope: .user) == .user)
        let isDone = Protected(false)
        let readers = DispatchGroup()
        for _ in 0..<2 {
            DispatchQueue.global().async(group: readers) {
                do {
                    repeat {
                        // As a process that has just started: only such a one has nothing from before.
                        let reader = EncryptedFileBackend(directory: store.directory)
                        #expect(try reader.lockState == .unlocked)
                        let lockbox = try lockbox(reader)
                        let value = try lockbox.unarchiveObject(
                            String.self,
                            forKey: Accessibility.whenUnlocked.rawValue
                        )
                        #expect(value == Accessibility.whenUnlocked.rawValue)
                    } while !isDone.withLock { $0 }
                } catch { Issue.record(error) }
            }
        }
        defer {
            isDone.withLock { $0 = true }
            readers.wait()
        }
        for number in 0..<5 {
            let changer = EncryptedFileBackend(directory: store.directory)
            try changer.changePasscode(to: .value("\(number)"), strength: .interactive)
            #expect(try changer.rotateKeys().isComplete)
        }
    }

    /// Whoever rewrites the keybag puts back what it found in the kernel, but not what was locked meanwhile.
    @Test(
        .enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"),
        arguments: [true, false]
    )
    func aLockIsNotUndoneByWhoRewritesTheKeybag(_ isRotation: Bool) throws {
        defer { clear() }
        try store.backend().unlock(.value("1234"), scope: .user)
        let id = try backend.keys.currentKeyring().storeID
        let calls = Protected<Int?>(nil)
        let (other, done) = (backend { nil }, DispatchSemaphore(value: 0))
        let rewriter = backend {
            // Both records have been found and read.
            guard
                calls.withLock({
                    $0? += 1; return $0
                }) == 5
            else { return nil }
            Thread.detachNewThread {
                #expect(throws: Never.self) { try other.lock() }
                done.signal()
            }
            while KernelKeyring().serial(
                of: SharedUnlock.Place(level: .unlocked, isOfNextKeybag: false).name(id)
            ) != nil {}
            return nil
        }
        try rewriter.unlock(.value("1234"))
        calls.withLock { $0 = 0 }
        if isRotation {
            try rewriter.rotateKeys()
        } else {
            try rewriter.changePasscode(to: .value("5678"), strength: .interactive)
        }
        done.wait()
        #expect(try readable(store.backend()) == afterLock)
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func aPasscodeChangedDuringTheUnlockIsNoDamage() throws {
        for call in 1...20 {
            let store = try TestStore()
            let first = store.backend()
            try first.setPasscode(.value(quick + "1234"), strength: .interactive)
            defer { try? store.backend().lock(includingAfterFirstUnlock: true) }
            let calls = Protected(0)
            let backend = EncryptedFileBackend(
                storage: FileStorage(directory: store.directory),
                deviceKey: .stored,
                kernel: KernelKeyring {
                    // Refused while the lock is held that keeps the two apart.
                    if calls.next() == call {
                        _ = try? first.changePasscode(to: .value(quick + "5678"), strength: .interactive)
                    }
                    return nil
                }
            )
            let error = lockboxError { try backend.unlock(.value(quick + "1234"), scope: .user) }
            #expect(error == nil || error?.code == .wrongPasscode, "call \(call): \(error!)")
            if error == nil, calls.withLock({ $0 }) >= call {
                #expect(try backend.lockState == .unlocked, "call \(call)")
            }
        }
    }
}
