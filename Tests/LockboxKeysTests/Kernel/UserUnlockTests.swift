import CLinux
import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// One unlock, or one lock, for every process of the user.
@Suite struct UserUnlockTests {
    private let store: TestStore
    private let backend: EncryptedFileBackend

    /// The store is locked.
    init() throws {
        store = try TestStore()
        backend = try store.backend().setUp(items: .everyClass)
        try backend.lock()
    }

    private func process(_ accessibility: Accessibility) throws -> Int32 {
        try TestProcess("read", store.directory, accessibility.rawValue).wait()
    }

    @Test(.needsKernelKeyring)
    func oneUnlockOpensTheStoreForEveryProcessOfTheUser() throws {
        defer { store.lockForEverybody() }
        let other = store.backend()
        #expect(try other.readable() == .always)
        #expect(try other.status()?.unlockScope == nil)
        #expect(try process(.whenUnlocked) == 3)

        #expect(try store.backend().unlock(.value("1234"), scope: .user) == .user)
        for backend in [backend, other, store.backend()] {
            #expect(try backend.readable() == .everyClass)
            #expect(try backend.lockState == .unlocked)
            #expect(try backend.status()?.unlockScope == .user)
        }
        #expect(other.keyStore.slots.derivations.withLock { $0 } == 0)
        for accessibility in Accessibility.allCases { #expect(try process(accessibility) == 0) }

        try store.backend().lock()
        for backend in [backend, other, store.backend()] {
            #expect(try backend.readable() == .afterFirstUnlock)
            #expect(try backend.lockState == .locked)
            #expect(try backend.status()?.unlockScope == nil)
        }
        #expect(try process(.whenUnlocked) == 3)
        #expect(try process(.afterFirstUnlock) == 0)

        try store.backend().lock(includingAfterFirstUnlock: true)
        #expect(try store.serials().isEmpty)
        for backend in [other, store.backend()] {
            #expect(try backend.readable() == .always)
            #expect(try backend.lockState == .beforeFirstUnlock)
        }
        #expect(try process(.afterFirstUnlock) == 3)
    }

    /// What it has written itself is no forgery, also if it never had the passcode.
    @Test(.needsKernelKeyring)
    func aProcessWithTheKernelsKeysRemovesTheLastSlot() throws {
        defer { store.lockForEverybody() }
        try store.backend().unlock(.value("1234"), scope: .user)
        let other = store.backend()
        #expect(try other.readable() == .everyClass)
        try other.removePasscode()
        #expect(try other.lockState == .unprotected)
        #expect(try other.readable().isSuperset(of: [.always, .afterFirstUnlock, .whenUnlocked]))
    }

    @Test(.needsKernelKeyring)
    func whoUnlockedForItselfLocksForItself() throws {
        defer { store.lockForEverybody() }
        let own = store.backend()
        #expect(try own.unlock(.value("1234")) == .process)
        #expect(try store.serials().isEmpty)
        #expect(try own.status()?.unlockScope == .process)
        try store.backend().unlock(.value("1234"), scope: .user)
        try store.backend().lock(includingAfterFirstUnlock: true)
        #expect(try own.readable() == .everyClass)

        // Unlocking for everybody hands the keys over.
        #expect(try own.unlock(.value("1234"), scope: .user) == .user)
        try store.backend().lock()
        #expect(try own.readable() == .afterFirstUnlock)
    }

    /// Another program of the user can make the kernel keep the record.
    @Test(.needsKernelKeyring, arguments: [false, true]) func aTimeLimitEndsIt(isKept: Bool) throws {
        defer { store.lockForEverybody() }
        let start = ContinuousClock.now
        #expect(try backend.unlock(.value("1234"), scope: .user, timeout: .seconds(2)) == .user)
        let serial = try #require(try store.serial(of: .unlocked))
        if isKept { try #require(kernel_key_set_timeout(serial, 0) >= 0) }
        let found = try store.backend().readable()
        // The kernel's seconds are those of its clock: the first of the two may be over at once.
        #expect(found == .everyClass || start.duration(to: .now) > .seconds(1))
        // Of the kernel, in whole seconds: nothing else can be waited for.
        let end = Date(timeIntervalSinceNow: 30)
        while try backend.lockState == .unlocked, Date() < end {}
        #expect(try backend.lockState == .locked)
        #expect(try backend.readable() == .afterFirstUnlock)
        #expect(try store.backend().readable() == .afterFirstUnlock)
        // The record is refused from now on; the kernel also removes it.
        while !isKept, try store.serial(of: .unlocked) != nil, Date() < end {}
        #expect(try store.serial(of: .unlocked) == (isKept ? serial : nil))
    }

    @Test(.needsKernelKeyring)
    func aStoreThatCannotBeWrittenTo() throws {
        defer { store.lockForEverybody() }
        let backend = store.backend(SystemCalls { $0 == .flock ? .failure(EROFS) : nil })
        #expect(try backend.unlock(.value("1234"), scope: .user) == .user)
        #expect(try store.backend().readable() == .everyClass)
        try backend.lock()
        #expect(try store.backend().readable() == .afterFirstUnlock)
    }

    /// Whatever fails on the way.
    @Test(.needsKernelKeyring)
    func anUnlockThatThrowsIsNone() throws {
        defer { store.lockForEverybody() }
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

    /// Keys are wiped also if the folder has gone, or cannot be read.
    @Test(arguments: UnlockScope.allCases) func aStoreThatCannotBeReadIsLocked(_ scope: UnlockScope) throws {
        defer { store.lockForEverybody() }
        let isFailing = Protected(false)
        let backend = store.backend(SystemCalls { _ in isFailing.withLock { $0 } ? .failure(EIO) : nil })
        try backend.unlock(.value("1234"), scope: scope)
        #expect(try backend.readable() == .everyClass)
        isFailing.withLock { $0 = true }
        _ = try? backend.lock()
        isFailing.withLock { $0 = false }
        #expect(try backend.readable() == .afterFirstUnlock)
        isFailing.withLock { $0 = true }
        _ = try? backend.lock(includingAfterFirstUnlock: true)
        isFailing.withLock { $0 = false }
        #expect(try backend.readable() == .always)
    }

    /// The program's keys are gone then, and the change is done.
    @Test(.needsKernelKeyring) func aLockDuringAChangeDoesNotMakeItFail() throws {
        defer { store.lockForEverybody() }
        let other = store.backend()
        try other.unlock(.value("1234"), scope: .user)
        let before = try store.openedKeybag()
        let program = store.backend(
            .atEachGeneration(of: store) { generation, _ in
                if generation == before.generation { return }
                _ = try? other.keyStore.userUnlock.remove(before.storeID, UnlockLevel.allCases)
            }
        )
        try program.changePasscode(to: .value("5678"), strength: .interactive)
        try store.backend().unlock(.value("5678"))
    }

    @Test(.needsKernelKeyring, arguments: [true, false]) func aLockThatFindsNoStoreIsAnError(isAway: Bool)
        throws
    {
        defer { store.lockForEverybody() }
        try #require(try backend.unlock(.value("1234"), scope: .user) == .user)
        let keybag = try readBytes(store.keybag)
        if isAway {
            try removeBoth(store.keybag)
        } else {
            var other = keybag
            other[16] ^= 1  // in the store's ID
            try overwriteBoth(store.keybag, other)
        }
        #expect(throws: LockboxError.self) { try store.backend().lock(includingAfterFirstUnlock: true) }
        try overwriteBoth(store.keybag, keybag)
        try store.backend().lock(includingAfterFirstUnlock: true)
        #expect(try store.serials().isEmpty)
    }

    /// The keybag cannot be opened, or is refused; what the kernel holds must not stay.
    @Test(
        .needsKernelKeyring,
        arguments: [
            ("no device key", .corrupt), ("damaged", .authenticationFailed), ("old", .rolledBack),
        ] as [(String, LockboxError.Code)]
    )
    func aStoreThatIsRefusedCanBeLocked(_ state: String, _ code: LockboxError.Code) throws {
        let own = store.backend()
        try own.unlock(.value("1234"))
        defer { store.lockForEverybody() }
        let old = try store.keyFiles()
        try own.rotateKeys()
        let present = try store.keyFiles()
        #expect(try store.backend().unlock(.value("1234"), scope: .user) == .user)
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
        let other = store.backend()
        expectError(code, "the control: it is refused") { try other.lockState }
        try other.lock(includingAfterFirstUnlock: true)
        #expect(serials().isEmpty)
        try store.putBack(present)
        #expect(try store.backend().lockState == .beforeFirstUnlock)
    }

    /// A process that unlocks the store for the user keeps no keys itself. One that finds the store unlocked knows only what any
    /// program of the user can put into the kernel.
    @Test(.needsKernelKeyring) func anUnlockForTheUserRemembers() throws {
        let own = store.backend()
        try own.unlock(.value("1234"))
        defer { store.lockForEverybody() }
        let old = try store.keyFiles()
        try own.rotateKeys()
        try store.memory.forget()
        #expect(try store.backend().unlock(.value("1234"), scope: .user) == .user)
        let present = try store.keyFiles()
        try store.putBack(old)
        // Not by what it reads: items of the new keys name the old keybag too.
        expectError(.rolledBack) { try store.backend().lockState }
        try store.putBack(present)
        try store.memory.forget()
        #expect(try store.backend().lockbox().unarchiveObject(forKey: "ak") == "old")
        #expect(store.memory.entries.isEmpty)
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

    @Test(.needsKernelKeyring)
    func aChangedPasscodeOrKeysLeaveItOpen() throws {
        defer { store.lockForEverybody() }
        #expect(try backend.unlock(.value("1234"), scope: .user, timeout: .seconds(1000)) == .user)
        let reader = store.backend()
        #expect(try reader.readable() == .everyClass)

        // By processes that have the keys from the kernel only.
        try store.backend().changePasscode(to: .value("5678"), strength: .interactive)
        #expect(try reader.readable() == .everyClass)
        #expect(try store.backend().rotateKeys().resealedCount == 7)
        for backend in [reader, store.backend()] {
            #expect(try backend.readable() == .everyClass)
            #expect(try backend.status()?.unlockScope == .user)
        }
        #expect(
            try epochsInKernel(.afterFirstUnlock) == [4],
            "the dropped keys are gone from the kernel, too"
        )
        let key = try #require(try store.serial(of: .unlocked))
        let deadline = KernelKeyring().read(key, maximum: 4096) {
            $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        }
        let left = Double(try #require(deadline)) - Date().timeIntervalSince1970
        #expect((900...1001).contains(left), "the time limit is the one that was given")

        try store.backend().lock()
        for backend in [reader, store.backend()] { #expect(try backend.readable() == .afterFirstUnlock) }
        #expect(throws: LockboxError.wrongPasscode) { try reader.unlock(.value("1234")) }
    }

    /// Whoever rewrites the keybag puts back what it found in the kernel, but not what was locked meanwhile, at whichever call of
    /// the kernel's keyring. Rotations and changes of the passcode take turns.
    @Test(.needsKernelKeyring)
    func aLockIsNotUndoneByWhoRewritesTheKeybag() throws {
        defer { store.lockForEverybody() }
        var (number, passcode) = (Interruption.start, "1234")
        while true {
            number += Interruption.stride
            try store.backend().unlock(.value(passcode), scope: .user)
            let unlocked = try store.kernelName(of: .unlocked)
            let (other, done) = (store.backend(lockTimeout: .seconds(30)), DispatchSemaphore(value: 0))
            let isRewritten = Protected(false)
            let lock = Interruption(at: number) {
                Thread.detachNewThread {
                    #expect(throws: Never.self) { try other.lock() }
                    // From then on the store is locked, and not only once the keybag has been rewritten.
                    repeat {
                        let readable = try? store.backend(lockTimeout: .seconds(30)).readable()
                        #expect(readable == .afterFirstUnlock)
                    } while !isRewritten.withLock { $0 }
                    done.signal()
                }
                // The lock first removes what is in the kernel, and then waits until the keybag has been rewritten.
                while KernelKeyring().serial(of: unlocked) != nil {}
            }
            let slowly = KernelKeyring {
                lock.call()
                if lock.hasHappened { usleep(1000) }
                return nil
            }
            let rewriter = store.backend(lockTimeout: .seconds(30), kernel: slowly)
            try rewriter.unlock(.value(passcode))
            lock.raise()
            do {
                defer { isRewritten.withLock { $0 = true } }
                if (number / Interruption.stride).isMultiple(of: 2) {
                    try rewriter.rotateKeys()
                } else {
                    passcode = "\(number)"
                    try rewriter.changePasscode(to: .value(passcode), strength: .interactive)
                }
            }
            if !lock.hasHappened { break }
            done.wait()
            #expect(try store.backend().readable() == .afterFirstUnlock, "call \(number)")
        }
        #expect(number > 20)
    }

    /// The store would stay open for other programs, and nobody would know.
    @Test func aLockThatTheKernelRefusesIsAnError() throws {
        let own = try TestStore().backend(kernel: KernelKeyring { EPERM }).setUp(items: ["k": .whenUnlocked])
        let others = EncryptedFileBackend(
            KeyStore(storage: own.storage, deviceKey: .stored, kernel: KernelKeyring { EPERM })
        )
        expectError(.storageFailure) { try others.lock() }
        // It is locked, and has nothing in the kernel.
        try own.lock()
        #expect(try own.lockState == .locked)
        let none = EncryptedFileBackend(
            KeyStore(storage: own.storage, deviceKey: .stored, kernel: KernelKeyring { ENOSYS })
        )
        try none.lock()
    }
}
