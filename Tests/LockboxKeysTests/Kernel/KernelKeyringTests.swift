import Foundation
import CLinux
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The kernel's keys of a store that is unlocked for the user, and a kernel that refuses them.
@Suite struct KernelKeyringTests {
    private let store: TestStore
    private let backend: EncryptedFileBackend

    /// The store is locked.
    init() throws {
        store = try TestStore()
        backend = try store.backend().setUp(items: .everyClass)
        try backend.lock()
    }

    /// The kernel lists all permissions for the key's holder and its user, none for its group and others.
    @Test(.needsKernelKeyring)
    func theKernelGivesAKeyToTheUserOnly() throws {
        defer { store.lockForEverybody() }
        #expect(try store.backend().unlock(.value("1234"), scope: .user) == .user)
        for serial in try store.serials() {
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

    @Test(.needsKernelKeyring)
    func anotherPasscodesKeysAreWorthNothing() throws {
        defer { store.lockForEverybody() }
        try backend.unlock(.value("1234"), scope: .user)
        let keys = try store.serials()
        #expect(keys.count == 2)
        let old = try keys.map { key in
            try #require(KernelKeyring().read(key, maximum: 4096) { [UInt8]($0) })
        }

        try backend.removePasscode()
        #expect(try store.serials().isEmpty)
        try backend.setPasscode(.value("1234"), strength: .interactive)
        #expect(try store.serials().isEmpty, "a new passcode is not shared unasked")
        #expect(try store.backend().lockState == .beforeFirstUnlock)

        // The same passcode, the same store, but the key of whenPasscodeSetThisDeviceOnly is another one.
        for (level, record) in zip(UnlockLevel.allCases, old) {
            let name = try store.kernelName(of: level)
            #expect(KernelKeyring().add(name, record, seconds: 60))
            #expect(try store.backend().lockState == .beforeFirstUnlock)
        }
    }

    @Test(.needsKernelKeyring)
    func everyChangedBitOfTheKernelsKeyIsRefused() throws {
        defer { store.lockForEverybody() }
        try backend.unlock(.value("1234"), scope: .user)
        try backend.keyStore.currentKeyring().keys { _ in true }.forEach {
            #expect($0.key.isLockedIntoMemory)
        }
        let serial = try #require(try store.serial(of: .unlocked))
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
        let backend = store.backend(
            kernel: KernelKeyring {
                isRefusing.withLock { $0 } && [3, 4].contains(calls.next()) ? EACCES : nil
            }
        )
        try backend.unlock(.value("1234"))
        isRefusing.withLock { $0 = true }
        return backend
    }

    @Test(arguments: [EPERM, ENOSYS, EACCES, EDQUOT])
    func aKernelThatRefusesLeavesItToTheProcess(_ errno: CInt) throws {
        let backend = store.backend(kernel: KernelKeyring { errno })
        #expect(try backend.readable() == .always)
        #expect(try backend.unlock(.value("1234"), scope: .user, timeout: .seconds(60)) == .process)
        #expect(try backend.status()?.unlockScope == .process)
        #expect(try backend.readable() == .everyClass)
        #expect(try store.backend().readable() == .always)
        try backend.changePasscode(to: .value("5678"), strength: .interactive)
        try backend.rotateKeys()
        try backend.lock()
        #expect(try backend.readable() == .afterFirstUnlock)
        try backend.lock(includingAfterFirstUnlock: true)
        #expect(try backend.readable() == .always)
    }

    @Test(.needsKernelKeyring)
    func whicheverCallOfTheKernelIsRefused() throws {
        defer { store.lockForEverybody() }
        var scopes: [UnlockScope] = []
        for refused in 1...60 {
            store.lockForEverybody()
            let calls = Protected(0)
            let backend = store.backend(kernel: KernelKeyring { calls.next() == refused ? EPERM : nil })
            let scope = try backend.unlock(.value("1234"), scope: .user)
            calls.withLock { $0 = refused }
            #expect(try backend.readable() == .everyClass, "call \(refused)")
            let others: Set<Accessibility> = scope == .user ? .everyClass : .always
            #expect(try store.backend().readable() == others, "call \(refused)")
            #expect(try store.serials().count == (scope == .user ? 2 : 0), "call \(refused)")
            scopes.append(scope)
        }
        #expect(Set(scopes) == Set(UnlockScope.allCases), "some calls matter, and not all 60 are made")
    }

    /// A lock that has not taken hold everywhere says so.
    @Test(.needsKernelKeyring)
    func aKeyThatTheKernelKeepsIsAnError() throws {
        defer { store.lockForEverybody() }
        try store.backend().unlock(.value("1234"), scope: .user)
        let backend = try backendThatCannotRemove()
        guard case .storageFailure("keyctl", _, EACCES, _)? = lockboxError({ try backend.lock() }) else {
            Issue.record("the refusal is not reported")
            return
        }
    }

    @Test(.needsKernelKeyring)
    func aKeyThatTheKernelKeepsDoesNotSaveTheOther() throws {
        defer { store.lockForEverybody() }
        try store.backend().unlock(.value("1234"), scope: .user)
        let backend = try backendThatCannotRemove()
        expectError(.storageFailure) { try backend.lock(includingAfterFirstUnlock: true) }
        #expect(try store.serials().count == 1)
        try KernelKeyring().remove(store.kernelName(of: .unlocked))
        #expect(try store.backend().readable() == .always)
    }
}
