import Foundation
import CLinux
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// What the kernel holds of a store that is unlocked for the user, and a kernel that refuses to.
@Suite struct KernelKeyringTests: UserUnlockFixture {
    let store: TestStore
    let backend: EncryptedFileBackend

    init() throws { (store, backend) = try Self.lockedStore() }

    /// As the kernel lists them: all to who has the key and to its user, nothing to its group and others.
    @Test(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"))
    func theKernelGivesAKeyToTheUserOnly() throws {
        defer { clear() }
        #expect(try store.backend().unlock(.value("1234"), scope: .user) == .user)
        for serial in try serials() {
            // The file is read in pieces, and may lack a key while others come and go.
            var found: String?
            for _ in 0..<50 where found == nil { found = try permissions(of: serial) }
            #expect(found == "3f3f0000")
        }
    }

    private func permissions(of serial: KernelKeyring.Serial) throws -> String? {
        // To its end: a file of this folder has no size.
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/keys"))
        let keys = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self).split(separator: "\n")
        let fields = keys.map { $0.split(separator: " ") }.first { Int32($0[0], radix: 16) == serial }
        return fields.map { String($0[4]) }
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
        for (level, record) in zip(UnlockLevel.allCases, old) {
            let name = SharedUnlock.Place(level: level, isOfNextKeybag: false).name(id)
            #expect(KernelKeyring().add(name, record, seconds: 60))
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
        let serial = try #require(KernelKeyring().serial(of: name))
        let record = try #require(KernelKeyring().read(serial, maximum: 4096) { [UInt8]($0) })
        // The key keeps its serial number, which is sealed with it.
        let lockState = { (record: [UInt8]) -> LockState in
            let result = record.withUnsafeBytes { kernel_key_update(serial, $0.baseAddress, $0.count) }
            #expect(result == 0, "\(record.count) bytes")
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
        #expect(try lockState([UInt8](repeating: 0, count: 512)) == .locked)
    }

    // MARK: A kernel that refuses

    /// Unlocked. From then on it takes the lock, and finds the first key in the kernel, but neither revokes nor unlinks it.
    private func backendThatCannotRemove() throws -> EncryptedFileBackend {
        let isRefusing = Protected(false)
        let calls = Protected(0)
        let backend = backend { isRefusing.withLock { $0 } && [3, 4].contains(calls.next()) ? EACCES : nil }
        try backend.unlock(.value("1234"))
        isRefusing.withLock { $0 = true }
        return backend
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
