import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// Whether this kernel, and this sandbox, have a keyring for the user.
let hasKernelKeyring: Bool = {
    let kernel = KernelKeyring()
    let name = "lockbox-tests:\(UInt64.random(in: .min ... .max))"
    guard Array("probe".utf8).withUnsafeBytes({ kernel.add(name, $0, seconds: 60) }) else { return false }
    defer { _ = try? kernel.remove(name) }
    return kernel.serial(of: name).flatMap { kernel.read($0, maximum: 64) { $0.count } } == 5
}()

@Suite struct UserUnlockTests {
    private let store: TestStore
    private let backend: EncryptedFileBackend

    init() throws {
        store = try TestStore()
        backend = store.backend()
        try backend.setPasscode(.value("1234"), strength: .interactive)
        let lockbox = try lockbox(backend)
        for accessibility in Accessibility.allCases {
            try lockbox.archiveObject(
                accessibility.rawValue,
                forKey: accessibility.rawValue,
                accessibility: accessibility
            )
        }
        try backend.lock()
    }

    private func lockbox(_ backend: EncryptedFileBackend) throws -> Lockbox {
        try Lockbox(keyPrefix: "com.example.process", backend: backend)
    }

    private func backend(refusing fault: @escaping @Sendable () -> CInt?) -> EncryptedFileBackend {
        EncryptedFileBackend(
            storage: FileStorage(directory: store.directory),
            deviceKey: .stored,
            kernel: KernelKeyring(fault: fault)
        )
    }

    /// Unlocked. From then on it finds the first key in the kernel, but neither revokes nor unlinks it.
    private func backendThatCannotRemove() throws -> EncryptedFileBackend {
        let isRefusing = Protected(false)
        let calls = Protected(0)
        let backend = backend { isRefusing.withLock { $0 } && [2, 3].contains(calls.next()) ? EACCES : nil }
        try backend.unlock(.value("1234"))
        isRefusing.withLock { $0 = true }
        return backend
    }

    /// The classes that can be read; what cannot is locked, and nothing else.
    private func readable(_ backend: EncryptedFileBackend) throws -> Set<Accessibility> {
        let lockbox = try lockbox(backend)
        return Set(
            try Accessibility.allCases.filter { accessibility in
                do {
                    return try lockbox.unarchiveObject(String.self, forKey: accessibility.rawValue)
                        == accessibility.rawValue
                } catch LockboxError.interactionNotAllowed { return false }
            }
        )
    }

    private let all = Set(Accessibility.allCases)
    private let untilLock: Set<Accessibility> = [.always, .alwaysThisDeviceOnly]
    private var afterLock: Set<Accessibility> {
        untilLock.union([.afterFirstUnlock, .afterFirstUnlockThisDeviceOnly])
    }

    private func serials() throws -> [KernelKeyring.Serial] {
        let id = try backend.keys.currentKeyring().storeID
        return SharedUnlock.Level.allCases.compactMap {
            KernelKeyring().serial(of: SharedUnlock.Place(level: $0, isOfNextKeybag: false).name(id))
        }
    }

    /// Of the keys in the kernel's record of a level.
    private func epochsInKernel(_ level: SharedUnlock.Level) throws -> Set<UInt32> {
        let deviceKey = try readBytes(store.deviceKey).withUnsafeBytes { try DeviceKeyRecord.decode($0) }
        let keybag = try readBytes(store.keybag).withUnsafeBytes { try Keybag($0, deviceKey: deviceKey) }
        let records = try UserUnlock(kernel: KernelKeyring()).records(of: keybag, device: deviceKey)
        let record = try #require(records.first { $0.level == level })
        return Set(record.keys.map(\.slot.epoch))
    }

    private func clear() { try? backend.lock(includingAfterFirstUnlock: true) }

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

    /// As the kernel lists them: all to who has the key and to its user, nothing to its group and others.
    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func theKernelGivesAKeyToTheUserOnly() throws {
        defer { clear() }
        #expect(try store.backend().unlock(.value("1234"), scope: .user) == .user)
        let keys = try String(contentsOfFile: "/proc/keys", encoding: .utf8).split(separator: "\n")
        for serial in try serials() {
            let fields = keys.map { $0.split(separator: " ") }.first { Int32($0[0], radix: 16) == serial }
            #expect(fields?[4] == "3f3f0000")
        }
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
        #expect(try backend.unlock(.value("1234"), scope: .user, timeout: .milliseconds(1)) == .user)
        let found = try readable(store.backend())
        #expect(found == all || start.duration(to: .now) > .seconds(1), "the kernel counts whole seconds")
        // Of the kernel, in whole seconds: nothing else can be waited for.
        let end = Date(timeIntervalSinceNow: 30)
        while try backend.lockState == .unlocked, Date() < end {}
        #expect(try backend.lockState == .locked)
        #expect(try readable(backend) == afterLock)
        #expect(try readable(store.backend()) == afterLock)
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
        #expect(try store.backend().rotateKeys().resealed == 7)
        for backend in [reader, store.backend()] {
            #expect(try readable(backend) == all)
            #expect(try backend.unlockScope == .user)
        }
        #expect(
            try epochsInKernel(.afterFirstUnlock) == [2],
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

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func anotherPasscodesKeysAreWorthNothing() throws {
        defer { clear() }
        try backend.unlock(.value("1234"), scope: .user)
        let keys = try serials()
        #expect(keys.count == 2)
        let id = try backend.keys.currentKeyring().storeID
        let old = try keys.map { key in
            try #require(KernelKeyring().read(key, maximum: 4096) { [UInt8]($0) })
        }

        try backend.removePasscode()
        #expect(try serials().isEmpty)
        try backend.setPasscode(.value("1234"), strength: .interactive)
        #expect(try serials().isEmpty, "a new passcode is not shared unasked")
        #expect(try store.backend().lockState == .beforeFirstUnlock)

        // The same passcode, the same store, but the key of whenPasscodeSetThisDeviceOnly is another one.
        for (level, record) in zip(SharedUnlock.Level.allCases, old) {
            let name = SharedUnlock.Place(level: level, isOfNextKeybag: false).name(id)
            #expect(record.withUnsafeBytes { KernelKeyring().add(name, $0, seconds: 60) })
            #expect(try store.backend().lockState == .beforeFirstUnlock)
        }
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func everyChangedBitOfTheKernelsKeyIsRefused() throws {
        defer { clear() }
        try backend.unlock(.value("1234"), scope: .user)
        try backend.keys.currentKeyring().keys { _ in true }.forEach { #expect($0.key.isLockedIntoMemory) }
        let id = try backend.keys.currentKeyring().storeID
        let name = SharedUnlock.Place(level: .unlocked, isOfNextKeybag: false).name(id)
        let record = try #require(
            KernelKeyring().serial(of: name).flatMap {
                KernelKeyring().read($0, maximum: 4096) { [UInt8]($0) }
            }
        )
        let lockState = { (record: [UInt8]) -> LockState in
            // For a user other than root: the quota of what was replaced is given back a moment later.
            let end = Date(timeIntervalSinceNow: 30)
            while !record.withUnsafeBytes({ KernelKeyring().add(name, $0, seconds: 60) }) {
                try #require(Date() < end, "the kernel takes no key")
            }
            return try store.backend().lockState
        }
        #expect(try lockState(record) == .unlocked)
        for bit in 0..<record.count * 8 {
            var changed = record
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(try lockState(changed) == .locked, "bit \(bit)")
        }
        for count in 1..<record.count { #expect(try lockState(Array(record[..<count])) == .locked) }
        #expect(try lockState(record + [0]) == .locked)
        #expect(try lockState([UInt8](repeating: 0, count: 8192)) == .locked)
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

    @Test(arguments: [EPERM, ENOSYS, EACCES, EDQUOT])
    func aKernelThatRefusesLeavesItToTheProcess(_ errno: CInt) throws {
        let backend = backend { errno }
        #expect(try readable(backend) == untilLock)
        #expect(try backend.unlock(.value("1234"), scope: .user, timeout: .seconds(60)) == .process)
        #expect(try backend.unlockScope == .process)
        #expect(try readable(backend) == all)
        #expect(try readable(store.backend()) == untilLock)
        try backend.changePasscode(to: .value("5678"), strength: .interactive)
        try backend.rotateKeys()
        try backend.lock()
        #expect(try readable(backend) == afterLock)
        try backend.lock(includingAfterFirstUnlock: true)
        #expect(try readable(backend) == untilLock)
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func whicheverCallOfTheKernelIsRefused() throws {
        defer { clear() }
        var scopes: [UnlockScope] = []
        for refused in 1...60 {
            clear()
            let calls = Protected(0)
            let backend = backend { calls.next() == refused ? EPERM : nil }
            let scope = try backend.unlock(.value("1234"), scope: .user)
            calls.withLock { $0 = refused }
            #expect(try readable(backend) == all, "call \(refused)")
            #expect(try readable(store.backend()) == (scope == .user ? all : untilLock), "call \(refused)")
            #expect(try serials().count == (scope == .user ? 2 : 0), "call \(refused)")
            scopes.append(scope)
        }
        #expect(Set(scopes) == Set(UnlockScope.allCases), "some calls matter, and not all 60 are made")
    }

    /// A lock that has not taken hold everywhere says so.
    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func aKeyThatTheKernelKeepsIsAnError() throws {
        defer { clear() }
        try store.backend().unlock(.value("1234"), scope: .user)
        let backend = try backendThatCannotRemove()
        guard case .storageFailure("keyctl", _, EACCES)? = lockboxError({ try backend.lock() }) else {
            Issue.record("the refusal is not reported")
            return
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

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func aPasscodeChangedDuringTheUnlockIsNoDamage() throws {
        for call in 1...20 {
            let store = try TestStore()
            let first = store.backend()
            try first.setPasscode(.value("1234"), strength: .interactive)
            defer { try? store.backend().lock(includingAfterFirstUnlock: true) }
            let calls = Protected(0)
            let backend = EncryptedFileBackend(
                storage: FileStorage(directory: store.directory),
                deviceKey: .stored,
                kernel: KernelKeyring {
                    // Refused while the lock is held that keeps the two apart.
                    if calls.next() == call {
                        _ = try? first.changePasscode(to: .value("5678"), strength: .interactive)
                    }
                    return nil
                }
            )
            let error = lockboxError { try backend.unlock(.value("1234"), scope: .user) }
            #expect(error == nil || error?.code == .wrongPasscode, "call \(call): \(error!)")
            if error == nil, calls.withLock({ $0 }) >= call {
                #expect(try backend.lockState == .unlocked, "call \(call)")
            }
        }
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
        #expect(try backend.lockState == .locked)
        expectError(.interactionNotAllowed) { try lockbox.unarchiveObject(String.self, forKey: "k") }
    }

    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func aKeyThatTheKernelKeepsDoesNotSaveTheOther() throws {
        defer { clear() }
        try store.backend().unlock(.value("1234"), scope: .user)
        let backend = try backendThatCannotRemove()
        expectError(.storageFailure) { try backend.lock(includingAfterFirstUnlock: true) }
        #expect(try serials().count == 1)
        try KernelKeyring().remove(
            SharedUnlock.Place(level: .unlocked, isOfNextKeybag: false).name(
                backend.keys.currentKeyring().storeID
            )
        )
        #expect(try readable(store.backend()) == untilLock)
    }
}

extension Protected<Int> {
    fileprivate func next() -> Int {
        withLock {
            $0 += 1
            return $0
        }
    }
}
