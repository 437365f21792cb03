import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Passcodes are set, changed, removed, and found to be wrong.
@Suite(.tags(.argon2id), .serialized) struct PasscodeTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    /// If the items are left for later.
    @Test func aPasscodeRewritesTheKeysOnly() throws {
        let lockbox = try store.lockbox()
        for index in 0..<1000 { try lockbox.archiveObject(index, forKey: "\(index)") }
        let backend = store.backend()
        let keys = ["device-key", "device-key-copy", "keybag", "keybag-copy"]
        let before = try store.snapshot()
        func changed(since before: [String: TestStore.Entry]) throws -> [String] {
            let changed = try store.snapshot().filter { before[$0.key] != $0.value }.keys.sorted()
            // The manifest has the items that are left.
            return changed.filter { !$0.hasPrefix("items/manifest") }
        }
        #expect(try backend.setPasscode(.value("one"), strength: .interactive, resealing: false).isPostponed)
        #expect(try changed(since: before) == keys)
        let set = try store.snapshot()
        let change = try ContinuousClock().measure {
            try backend.changePasscode(to: .value("two"), strength: .interactive, resealing: false)
        }
        #expect(try changed(since: set) == keys)
        let other = store.backend()
        let unlock = try ContinuousClock().measure { try store.backend().unlock(.value("two")) }
        print("1,000 items: a change of the passcode took \(change), an unlock \(unlock)")
        #expect(throws: LockboxError.wrongPasscode) { try other.unlock(.value("one")) }
        try other.unlock(.value("two"))
        #expect(try other.lockbox().unarchiveObject(forKey: "7") == 7)
        try other.removePasscode(resealing: false)
        #expect(try changed(since: set) == keys)
        #expect(try store.lockbox().unarchiveObject(forKey: "49") == 49)
    }

    @Test func threeErrorsForThreeFaults() throws {
        try store.backend().setUp(items: .everyClass)
        #expect(throws: LockboxError.wrongPasscode) { try store.backend().unlock(.value("12345")) }
        let keybag = try readBytes(store.keybag)
        var damaged = keybag
        damaged[200] ^= 1
        try overwriteBoth(store.keybag, damaged)
        expectError(.authenticationFailed) { try store.backend().unlock(.value("1234")) }
        try overwriteBoth(store.keybag, keybag)
        let stranger = try TestStore()
        try stranger.lockbox().archiveObject(1, forKey: "k")
        try overwriteBoth(store.deviceKey, readBytes(stranger.deviceKey))
        expectError(.deviceKeyMismatch) { try store.backend().unlock(.value("1234")) }
        #expect(try readBytes(store.keybag) == keybag)
    }

    @Test func callsThatDoNotFitTheState() throws {
        let backend = store.backend()
        #expect(try backend.lockState == .unprotected)
        #expect(throws: LockboxError.passcodeNotSet) { try backend.changePasscode(to: .value("x")) }
        #expect(throws: LockboxError.passcodeNotSet) { try backend.removePasscode() }
        #expect(throws: LockboxError.passcodeNotSet) { try backend.unlock(.value("anything")) }
        try backend.lock()
        #expect(!FileManager.default.fileExists(atPath: store.directory))
        try backend.setPasscode(.value("1234"), strength: .interactive)
        #expect(throws: LockboxError.passcodeAlreadySet) { try backend.setPasscode(.value("x")) }
        #expect(throws: LockboxError.passcodeAlreadySet) { try store.backend().setPasscode(.value("x")) }
        try backend.lock()
        expectError(.interactionNotAllowed) { try backend.changePasscode(to: .value("x")) }
        expectError(.interactionNotAllowed) { try backend.removePasscode() }
        try backend.unlock(.value("1234"))
        #expect(try backend.lockState == .unlocked)
    }

    @Test func removingThePasscodeDestroysItsClass() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let path = try store.path("akpu")
        let copy = try readBytes(path)
        try backend.removePasscode()
        #expect(try backend.lockbox().unarchiveObject(String.self, forKey: "akpu") == nil)
        #expect(!FileManager.default.fileExists(atPath: path))
        try overwrite(path, copy)
        expectError(.corrupt) { try store.lockbox().unarchiveObject(String.self, forKey: "akpu") }
        try backend.setPasscode(.value("1234"), strength: .interactive)
        expectError(.corrupt, "the class has another key now") {
            try backend.lockbox().unarchiveObject(String.self, forKey: "akpu")
        }
        for accessibility in Accessibility.allCases.dropLast() {
            #expect(try backend.lockbox().unarchiveObject(forKey: accessibility.rawValue) == "old")
        }
    }

    @Test func aPasscodeIsRemovedBesideAnItemThatIsNotSafeToUse() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let lockbox = try backend.lockbox()
        try lockbox.archiveObject("v", forKey: "p", accessibility: .whenPasscodeSetThisDeviceOnly)
        let bound = try store.path("p", prefix: lockbox.keyPrefix)
        try lockbox.archiveObject("v", forKey: "open")
        chmod(try store.path("open", prefix: lockbox.keyPrefix), 0o644)
        try backend.removePasscode()
        #expect(!FileManager.default.fileExists(atPath: bound))
    }

    // MARK: The cost of Argon2id

    private func runs(of backend: EncryptedFileBackend) -> Int {
        backend.keyStore.slots.derivations.withLock { $0 }
    }

    @Test func argon2RunsOncePerUnlockAndNeverElse() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let other = store.backend()
        let before = runs(of: backend)
        func runsSince() -> Int { runs(of: backend) + runs(of: other) - before }
        try other.unlock(.value("1234"))
        #expect(runsSince() == 1)
        for round in 0..<20 {
            try other.lockbox().archiveObject(round, forKey: "ak")
            #expect(try other.lockbox().unarchiveObject(forKey: "ak") == round)
            _ = try other.lockbox().allKeys()
        }
        #expect(runsSince() == 1)
        try backend.changePasscode(to: .value("5678"), strength: .interactive)
        #expect(runsSince() == 2)
        try backend.lock()
        try backend.removePasscodeAfterUnlocking("5678")
        #expect(runsSince() == 3)
    }

    /// It costs as much as a right one, however many there are.
    @Test func aWrongPasscodeCostsOneRun() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let before = runs(of: backend)
        for number in 1...5 {
            #expect(throws: LockboxError.wrongPasscode) { try backend.unlock(.value("12345")) }
            #expect(runs(of: backend) - before == number)
        }
        try backend.unlock(.value("1234"))
        #expect(runs(of: backend) - before == 6)
    }

    /// Refused before they cost anything: who has the device key could write such a slot.
    @Test(
        arguments: [
            (0, 1 << 26), (1, 1 << 26), (11, 1 << 26), (.max, 1 << 26), (2, 0), (2, (1 << 26) - 1),
            (2, (1 << 30) + 1), (2, .max),
        ]
            as [(UInt32, UInt64)]
    )
    func parametersOutOfBounds(_ operations: UInt32, _ memory: UInt64) throws {
        try store.backend().setUp(items: .everyClass)
        let backend = store.backend()
        let deviceKey = try #require(store.deviceKeys().first)
        var contents = try #require(try contents(of: backend))
        let slot = contents.slots[0].slot
        let parameters =
            [1, 0, 0, 0] + withUnsafeBytes(of: operations.littleEndian, Array.init)
            + withUnsafeBytes(of: memory.littleEndian, Array.init)
        contents.slots[0] = .init(
            slot: KeybagSlot(
                id: slot.id,
                kind: slot.kind,
                label: slot.label,
                created: slot.created,
                salt: slot.salt,
                parameters: parameters,
                grants: slot.grants
            ),
            authentication: contents.slots[0].authentication
        )
        try overwriteBoth(store.keybag, contents.encoded(deviceKey: deviceKey))
        let other = store.backend()
        expectError(.corrupt) { try other.unlock(.value("1234")) }
    }

    private func contents(of backend: EncryptedFileBackend) throws -> KeybagContents? {
        try backend.unlock(.value("1234"))
        return try KeybagContents(after: backend.keyStore.current())
    }

    @Test(.enabled(if: isUnsanitized, "a sanitizer takes more memory")) func withoutTheMemoryItIsATypedError()
        async
    {
        await #expect(processExitsWith: .success) { try PasscodeTests().expectNotEnoughMemory() }
    }

    private func expectNotEnoughMemory() throws {
        try store.backend().setUp(items: .everyClass)
        var limit = rlimit(rlim_cur: 600 << 20, rlim_max: 600 << 20)
        _ = withUnsafePointer(to: &limit) { setrlimit(__rlimit_resource_t(9), $0) }  // RLIMIT_AS
        let backend = store.backend()
        try backend.unlock(.value("1234"))
        expectError(.notEnoughMemory) { try backend.changePasscode(to: .value("x"), strength: .sensitive) }
        try backend.changePasscode(to: .value("1234"), strength: .interactive)
        try store.backend().unlock(.value("1234"))
    }
}

extension EncryptedFileBackend {
    fileprivate func removePasscodeAfterUnlocking(_ passcode: String) throws {
        try unlock(.value(passcode))
        try removePasscode()
    }
}
