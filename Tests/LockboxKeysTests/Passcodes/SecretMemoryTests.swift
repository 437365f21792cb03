import Foundation
import Testing

@testable import Lockbox
@testable import LockboxAge
import LockboxBackup
@testable import LockboxCore
import LockboxPlatform
@_spi(Extensions) @testable import LockboxStore
@testable import LockboxTestProcess

/// Keys and passcodes in memory: wiped after their use, and locked into RAM where that is allowed.
@Suite(.tags(.argon2id), .serialized) struct SecretMemoryTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    /// Looked at before anything else can use the memory again.
    @Test(.enabled(if: isUnsanitized, "a sanitizer forbids to look at memory that was freed"))
    func thePasscodeIsWipedAfterItsUse() throws {
        let text = Array("a passcode of some length".utf8)
        let address = Protected<UInt>(0)
        let passcode = PasscodeSource.closure {
            let bytes = text.map { $0 }
            address.withLock { address in
                address = bytes.withUnsafeBytes { UInt(bitPattern: $0.baseAddress!) }
            }
            return bytes
        }
        var during: UInt64 = 0
        try passcode.withBytes { during = $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self) }
        let memory = UnsafeRawPointer(bitPattern: address.withLock { $0 })!
        let afterwards = memory.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        #expect(during == text.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self) })
        #expect(afterwards != during)
    }

    @Test(.enabled(if: isUnsanitized, "a sanitizer forbids to look at memory that was freed"))
    func thePassphraseOfABackupIsWipedAfterItsUse() throws {
        let text = String(repeating: "a passphrase of some length ", count: 4)
        func word(_ address: UInt) -> UInt64 {
            UnsafeRawPointer(bitPattern: address)!.loadUnaligned(fromByteOffset: 64, as: UInt64.self)
        }
        func use() throws -> (address: UInt, during: UInt64) {
            let keys = try BackupRecipients.passphrase(.value(text)).keys()
            guard case .passphrase(let passphrase, _) = keys[0] else { return (0, 0) }
            let address = passphrase.withBytes { UInt(bitPattern: $0.baseAddress!) }
            return withExtendedLifetime(keys) { (address, word(address)) }
        }
        let (address, during) = try use()
        let afterwards = word(address)
        #expect(during == Array(text.utf8)[64...].withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) })
        #expect(afterwards != during)
    }

    /// Reads the memory of a process of its own.
    @Test(
        .enabled(if: isUnsanitized, "a sanitizer's memory takes hours to read"),
        arguments: [
            "a passcode of some length",
            "Pa\u{DF}wort, \u{43F}\u{430}\u{440}\u{43E}\u{43B}\u{44C} 🔑 \u{958B}\u{3051}\u{3054}\u{307E}",
        ]
    )
    func keysAndPasscodeAreGoneFromMemoryAfterALock(_ passcode: String) throws {
        let backend = try store.backend().setUp(passcode: passcode, items: .everyClass)
        let keyring = try backend.keyStore.currentKeyring()
        let wiped: [Accessibility] = [
            .whenUnlocked, .whenUnlockedThisDeviceOnly, .whenPasscodeSetThisDeviceOnly,
        ]
        var needles = try wiped.flatMap {
            try keyring.key(.classKey($0), epoch: keyring.epoch).withBytes { $0.map { ~$0 } }
        }
        let own = try backend.keyStore.own()
        let unlocked = [own.unlockKeys[.unlocked], own.slotKeys?.keys[.unlocked]].compactMap { $0 }
        #expect(unlocked.count == 2)
        needles += unlocked.flatMap { $0.withBytes { $0.map { ~$0 } } }
        let folder = Path.parent(of: store.directory)
        try overwrite("\(folder)/needles", needles)
        try overwrite("\(folder)/passcode", Array("\(passcode)\n".utf8))
        try overwrite("\(folder)/inverted-passcode", passcode.utf8.map { ~$0 })
        let slot = try #require(try backend.keyStore.own().keybag.passcodeSlot)
        let method = SecretUnlock.passcode(.value(passcode))
        let derived = try method.deriveSecret(slot.parameters, salt: slot.salt)
        try overwrite("\(folder)/inverted-derived-key", derived.map { ~$0 })
        let status = try TestProcess("memory", store.directory, folder).wait()
        #expect(status == 0)
    }

    /// The kernel wipes them there, and the child reads the store anew.
    @Test(.enabled(if: isUnsanitized, "a sanitizer's threads do not survive a fork"))
    func aForkedChildDoesNotHaveItsParentsKeys() throws {
        let lockbox = try store.backend().setUp().lockbox()
        try lockbox.archiveObject("value", forKey: "locked")
        try lockbox.archiveObject("value", forKey: "open", accessibility: .always)
        #expect(try TestProcess("fork", store.directory, "1234").wait() == 0)
        #expect(try lockbox.unarchiveObject(forKey: "child") == "of the child")
    }

    /// With and without a page that the kernel wipes.
    @Test func aForkIsNoticed() {
        #expect(ForkGuard.generation(on: nil) == Int(getpid()))
        var word = 0
        let first = ForkGuard.generation(on: &word)
        #expect(first != 0 && ForkGuard.generation(on: &word) == first)
        word = 0  // like in the child
        let second = ForkGuard.generation(on: &word)
        #expect(second != 0 && second != first)
    }

    /// In a process of its own, which may lock nothing into RAM.
    @Test(.enabled(if: isUnsanitized, "under a sanitizer mlock does nothing, and succeeds"))
    func itIsSaidWhereKeysMayBeSwappedOut() async {
        await #expect(processExitsWith: .success) {
            var limit = rlimit(rlim_cur: 0, rlim_max: 0)
            // RLIMIT_MEMLOCK, which the Glibc module does not have.
            guard setrlimit(__rlimit_resource_t(8), &limit) == 0 else { exit(2) }
            setuid(65534)  // root may do it all the same
            exit(try SecretKey.random().isLockedIntoMemory ? 1 : 0)
        }
    }

    /// A process may lock few pages, and a store has more keys with each change that leaves its items for later. In a process of
    /// its own, where nothing else is locked meanwhile.
    @Test(.enabled(if: isUnsanitized, "under a sanitizer mlock does nothing"))
    func moreKeysLockNoMorePages() async {
        await #expect(processExitsWith: .success) {
            let store = try TestStore()
            let passcode = PasscodeSource.value(quick + "1")
            let first = try store.backend().setUp(passcode: quick + "1")
            func kibibytesOfAnUnlock() throws -> Int {
                let before = try lockedKibibytes()
                let backend = store.backend()
                try backend.unlock(passcode)
                return try withExtendedLifetime(backend) { try lockedKibibytes() - before }
            }
            let few = try kibibytesOfAnUnlock()
            func change() throws {
                try first.changePasscode(to: passcode, strength: .interactive, resealing: false)
            }
            for index in 0..<5 {
                try first.lockbox().archiveObject("needs its keys", forKey: "\(index)")
                try change()
            }
            #expect(try first.keyStore.own().keybag.epochs.count == 6)
            let many = try kibibytesOfAnUnlock()
            exit(few > 0 && many == few ? 0 : 1)
        }
    }
}

private func lockedKibibytes() throws -> Int {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmLck:") })
    return try #require(line.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) })
}
