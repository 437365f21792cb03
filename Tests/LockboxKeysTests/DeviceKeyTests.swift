import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Device keys that are not in the store's folder.
@Suite struct DeviceKeyTests {
    private let store: TestStore
    private let folder: String
    private let key = [UInt8](0..<40)

    init() throws {
        store = try TestStore()
        folder = Path.parent(of: store.directory)
    }

    private func lockbox(_ deviceKey: DeviceKeySource) throws -> Lockbox {
        try store.backend(deviceKey: deviceKey).lockbox()
    }

    @Test func aGivenKeyIsNotStored() throws {
        try lockbox(.bytes(key)).archiveObject("secret", forKey: "key")
        #expect(!FileManager.default.fileExists(atPath: store.deviceKey))
        try overwrite("\(folder)/key", key)
        #expect(try lockbox(.file("\(folder)/key")).unarchiveObject(forKey: "key") == "secret")
        for entry in try store.snapshot().values {
            #expect(entry.bytes.flatMap { Data($0).range(of: Data(key)) } == nil)
        }
    }

    @Test func anotherKeyIsRefusedAndChangesNothing() throws {
        try lockbox(.bytes(key)).archiveObject("secret", forKey: "key")
        let before = try store.snapshot()
        for wrong in [
            DeviceKeySource.bytes(key.reversed()), .bytes(key + [0]), .bytes(Array(key.dropLast())),
        ] {
            let lockbox = try lockbox(wrong)
            expectError(.deviceKeyMismatch) { try lockbox.unarchiveObject(String.self, forKey: "key") }
            expectError(.deviceKeyMismatch) { try lockbox.archiveObject("new", forKey: "key") }
        }
        expectError(.missing) { try lockbox(.stored).unarchiveObject(String.self, forKey: "key") }
        expectError(.missing) { try lockbox(.stored).archiveObject("new", forKey: "key") }
        #expect(try store.snapshot() == before)
        #expect(try lockbox(.bytes(key)).unarchiveObject(forKey: "key") == "secret")
    }

    @Test func aClosureIsAskedWheneverTheKeybagIsRead() throws {
        struct Unreachable: Error {}
        let answers = Protected<[UInt8]?>(key)
        let count = Protected(0)
        let source = DeviceKeySource.closure(name: "the module") {
            count.withLock { $0 += 1 }
            guard let key = answers.withLock({ $0 }) else { throw Unreachable() }
            return key
        }
        try lockbox(source).archiveObject("secret", forKey: "key")
        #expect(try lockbox(.bytes(key)).unarchiveObject(forKey: "key") == "secret")
        let asked = count.withLock { $0 }
        #expect(try lockbox(source).unarchiveObject(forKey: "key") == "secret")
        #expect(count.withLock { $0 } > asked)
        answers.withLock { $0 = nil }
        #expect(throws: Unreachable.self) { try lockbox(source).unarchiveObject(String.self, forKey: "key") }
        answers.withLock { $0 = [1] }
        expectError(.invalidDeviceKey) { try lockbox(source).unarchiveObject(String.self, forKey: "key") }
        answers.withLock { $0 = key.reversed() }
        #expect(throws: LockboxError.deviceKeyMismatch(source: "the module")) {
            try lockbox(source).unarchiveObject(String.self, forKey: "key")
        }
    }

    @Test func aStoredKeyIsNotReplacedByAGivenOne() throws {
        try lockbox(.stored).archiveObject("secret", forKey: "key")
        let before = try store.snapshot()
        expectError(.deviceKeyMismatch) { try lockbox(.bytes(key)).archiveObject("new", forKey: "key") }
        #expect(try store.snapshot() == before)
    }

    @Test func keysThatCannotBeHad() throws {
        expectError(.invalidDeviceKey) {
            try lockbox(.bytes(Array(key.prefix(31)))).archiveObject(1, forKey: "k")
        }
        expectError(.storageFailure) { try lockbox(.file("\(folder)/missing")).archiveObject(1, forKey: "k") }
        #expect(lockboxError { try lockbox(.file("/dev/zero")).archiveObject(1, forKey: "k") } != nil)
        #expect(try store.backend().lockState == .unprotected)
    }

    @Test func aCredentialOfSystemd() async {
        await #expect(processExitsWith: .success) { try DeviceKeyTests().useCredential() }
    }

    private func useCredential() throws {
        try overwrite("\(folder)/lockbox-device-key", key)
        func write() throws { try lockbox(.credential()).archiveObject("secret", forKey: "key") }
        unsetenv("CREDENTIALS_DIRECTORY")
        #expect(lockboxError(write) != nil)
        setenv("CREDENTIALS_DIRECTORY", folder, 1)
        try write()
        #expect(try lockbox(.bytes(key)).unarchiveObject(forKey: "key") == "secret")
    }

    enum Move: CaseIterable { case outOfTheStore, elsewhere, intoTheStore }

    /// Whoever has the old one, or can write files, makes a keybag that it opens.
    @Test(arguments: Move.allCases) func aKeyThatWasReplacedOpensNothing(_ move: Move) throws {
        let own = store.backend(deviceKey: move == .outOfTheStore ? .stored : .bytes(key))
        try own.lockbox().archiveObject("secret", forKey: "key")
        let before = try own.keyStore.current()
        var forged = try #require(try KeybagContents(after: before))
        forged.generation += 10
        try forged.beginEpoch()
        let new = move == .intoTheStore ? DeviceKeySource.stored : .bytes(key.reversed())
        try own.rotateKeys(newDeviceKey: new)
        let owners = try readBytes(store.keybag)
        // A key in the store is anybody's who can write there.
        let isPlanted = move != .intoTheStore
        for deviceKey in [before.keybag.deviceKey] + (isPlanted ? [try .random()] : []) {
            if isPlanted { try overwriteBoth(store.deviceKey, DeviceKeyRecord.encoded([deviceKey])) }
            try overwriteBoth(store.keybag, forged.encoded(deviceKey: deviceKey))
            #expect(throws: LockboxError.self) { try own.lockbox().archiveObject("next", forKey: "new") }
            #expect(throws: LockboxError.self) { try own.rotateKeys() }
        }
        try overwriteBoth(store.keybag, owners)
        #expect(try own.lockbox().unarchiveObject(forKey: "key") == "secret")
    }

    @Test func withAPasscode() throws {
        try store.backend(deviceKey: .bytes(key)).setUp(items: ["key": .whenUnlocked])
        let other = store.backend(deviceKey: .bytes(key))
        try other.unlock(.value("1234"))
        #expect(try other.lockbox().unarchiveObject(forKey: "key") == "old")
    }

    // MARK: Replacing it

    @Test func aDeviceKeyThatIsKeptElsewhereIsReplaced() throws {
        let (old, new) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))
        func backend(_ source: DeviceKeySource) -> EncryptedFileBackend {
            store.backend(deviceKey: source)
        }
        let own = backend(.bytes(old))
        try own.lockbox().archiveObject("v", forKey: "k")
        let other = backend(.anyOf([.bytes(new), .bytes(old)]))
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "v")
        #expect(try !own.rotateKeys().hasNewDeviceKey, "only its owner can replace it")
        #expect(try own.rotateKeys(newDeviceKey: .bytes(new)).hasNewDeviceKey)
        #expect(!FileManager.default.fileExists(atPath: store.deviceKey))
        #expect(try own.lockbox().unarchiveObject(forKey: "k") == "v")
        try own.lockbox().archiveObject("w", forKey: "k")
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "w", "it has both")
        #expect(try backend(.bytes(new)).lockbox().unarchiveObject(forKey: "k") == "w")
        expectError(.deviceKeyMismatch) {
            try backend(.bytes(old)).lockbox().unarchiveObject(String.self, forKey: "k")
        }
    }

    @Test func noSourceOfADeviceKeyIsAnError() throws {
        let none = store.backend(deviceKey: .anyOf([]))
        expectError(.invalidDeviceKey) { try none.lockbox().archiveObject("v", forKey: "k") }
        try store.lockbox().archiveObject("v", forKey: "k")
        expectError(.invalidDeviceKey) { try none.lockbox().unarchiveObject(String.self, forKey: "k") }
        let before = try store.snapshot()
        expectError(.invalidDeviceKey) { try store.backend().rotateKeys(newDeviceKey: .anyOf([])) }
        #expect(try store.snapshot() == before)
    }

    @Test func aDeviceKeyMovesOutOfTheStoreAndBack() throws {
        let key = [UInt8](repeating: 2, count: 32)
        let own = store.backend()
        try own.lockbox().archiveObject("v", forKey: "k")
        try own.rotateKeys(newDeviceKey: .bytes(key))
        #expect(!FileManager.default.fileExists(atPath: store.deviceKey))
        expectError(.missing) { try store.lockbox().unarchiveObject(String.self, forKey: "k") }
        let outside = store.backend(deviceKey: .bytes(key))
        #expect(try outside.lockbox().unarchiveObject(forKey: "k") == "v")
        try outside.rotateKeys(newDeviceKey: .stored)
        #expect(try store.lockbox().unarchiveObject(forKey: "k") == "v")
        #expect(try store.deviceKeys().count == 1)
    }
}
