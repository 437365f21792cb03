import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Somebody changes the files. Each time: the typed error, never a value, never a crash, nothing written, and every
/// other item still readable.
@Suite struct TamperTests {
    private let store: TestStore
    private let path: String
    private let original: [UInt8]

    init() throws {
        store = try TestStore()
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("of the victim", forKey: "victim")
        try lockbox.archiveObject("of the other", forKey: "other", accessibility: .always)
        try store.lockbox("com.example.other").archiveObject("of the other prefix", forKey: "victim")
        path = try store.path("victim")
        original = try readBytes(path)
    }

    private static let damage: Set<LockboxError.Code> = [
        .corrupt, .authenticationFailed, .unsupportedVersion, .rolledBack,
    ]

    private func isDamage(_ error: LockboxError?) -> Bool {
        error.map { Self.damage.contains($0.code) } ?? false
    }

    /// Puts `bytes` into the item's file and expects every way of reading it to fail as it should.
    private func expectRefusal(_ bytes: [UInt8], _ what: String, attributesToo: Bool) throws {
        try overwrite(path, bytes)
        let lockbox = try shared.lockbox()
        let reading = lockboxError { try lockbox.unarchiveObject(String.self, forKey: "victim") }
        #expect(isDamage(reading), "\(what): \(String(describing: reading))")
        if attributesToo {
            let listing = lockboxError { try lockbox.attributes(forKey: "victim") }
            #expect(isDamage(listing), "\(what): \(String(describing: listing))")
        }
        if try readBytes(path) != bytes { Issue.record("\(what): the file was written to") }
        #expect(try lockbox.unarchiveObject(forKey: "other") == "of the other")
    }

    /// One open store for the many changes to one file; the keybag is not among them.
    private var shared: EncryptedFileBackend { sharedBackend }
    private let sharedStorage = Holder()
    private var sharedBackend: EncryptedFileBackend { sharedStorage.backend(store) }

    private final class Holder {
        private var backend: EncryptedFileBackend?
        func backend(_ store: TestStore) -> EncryptedFileBackend {
            if let backend { return backend }
            backend = store.backend()
            return backend!
        }
    }

    @Test("Promise 4: any changed bit in an item is detected") func everyBitOfAnItem() throws {
        let metadataEnd = ItemHeader.length + SealedBox.overhead + 256
        for index in original.indices {
            for bit in 0..<8 {
                var bytes = original
                bytes[index] ^= 1 << bit
                try expectRefusal(bytes, "bit \(bit) of byte \(index)", attributesToo: index < metadataEnd)
            }
        }
        try overwrite(path, original)
        #expect(try store.lockbox().unarchiveObject(forKey: "victim") == "of the victim", "the control")
    }

    @Test func everyLength() throws {
        for length in original.indices {
            try expectRefusal(Array(original[..<length]), "length \(length)", attributesToo: length < 360)
        }
        for tail in [[0], [0x80], original, [UInt8](repeating: 0, count: 4096)] {
            try expectRefusal(original + tail, "\(tail.count) bytes more", attributesToo: false)
        }
        try expectRefusal([UInt8](repeating: 0, count: original.count), "zeros", attributesToo: true)
    }

    @Test("Promise 4: an item opens only under its own key, prefix, class and store")
    func anotherItemInItsPlace() throws {
        try expectRefusal(readBytes(store.path("other")), "another key's", attributesToo: true)
        try expectRefusal(
            readBytes(store.path("victim", prefix: "com.example.other")),
            "another prefix's",
            attributesToo: true
        )
        let stranger = try TestStore()
        try stranger.lockbox().archiveObject("of a stranger", forKey: "victim")
        try expectRefusal(readBytes(stranger.path("victim")), "another store's", attributesToo: true)
        for accessibility in Accessibility.allCases where accessibility != .whenUnlocked {
            var bytes = original
            bytes[6] = accessibility.number
            try expectRefusal(bytes, "another class", attributesToo: true)
        }
    }

    /// The metadata of one version of an item with the value of another.
    @Test func partsOfTwoVersions() throws {
        let backend = store.backend()
        let lockbox = try backend.lockbox()
        try lockbox.archiveObject("of the victim, later", forKey: "victim")
        let later = try readBytes(path)
        let split = ItemHeader.length + SealedBox.overhead + 256
        try #require(later.count == original.count)
        try expectRefusal(Array(later[..<split] + original[split...]), "new metadata", attributesToo: false)
        try expectRefusal(Array(original[..<split] + later[split...]), "new value", attributesToo: false)
    }

    @Test("Promise 9: a newer item is refused and never rewritten") func newerItem() throws {
        for offset in [4, 5] { try expectNeverRewritten(offset) }
    }

    private func expectNeverRewritten(_ offset: Int) throws {
        var bytes = original
        bytes[offset] += 1
        try overwrite(path, bytes)
        let lockbox = try store.lockbox()
        expectError(.unsupportedVersion) { try lockbox.unarchiveObject(String.self, forKey: "victim") }
        expectError(.unsupportedVersion) { try lockbox.archiveObject("new", forKey: "victim") }
        expectError(.unsupportedVersion) {
            try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "victim")
        }
        #expect(try readBytes(path) == bytes)
    }

    /// Nobody knows when it expires.
    @Test func aDamagedItemDoesNotExpire() throws {
        try overwrite(path, original.dropLast(original.count / 2))
        #expect(try store.backend().removeExpired(prefix: TestStore.prefix, now: .distantFuture) == 0)
        try overwrite(path, [])
        #expect(try store.backend().removeExpired(prefix: TestStore.prefix, now: .distantFuture) == 0)
        #expect(FileManager.default.fileExists(atPath: path))
    }

    @Test func damagedItemCanBeOverwrittenOrRemovedOnPurpose() throws {
        let lockbox = try store.lockbox()
        try overwrite(path, [])
        expectError(.corrupt, "a list is not shortened in silence") { try lockbox.allKeys() }
        #expect(throws: LockboxError.duplicateItem(key: "victim")) {
            try lockbox.archiveObject("new", forKey: "victim", options: WriteOptions(policy: .addOnly))
        }
        try lockbox.archiveObject("new", forKey: "victim")
        #expect(try lockbox.unarchiveObject(forKey: "victim") == "new")
        try overwrite(path, Array(original.dropLast()))
        try lockbox.removeObject(forKey: "victim")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "victim") == nil)
        #expect(try lockbox.allKeys() == ["other"])
    }

    // MARK: The keybag

    private static let keybagDamage = damage.union([.deviceKeyMismatch])

    private func expectKeybagRefusal(_ what: String, _ expected: Set<LockboxError.Code> = keybagDamage) throws
    {
        let before = try store.snapshot()
        let lockbox = try store.lockbox()
        let calls: [() throws -> Void] = [
            { _ = try lockbox.unarchiveObject(String.self, forKey: "victim") },
            { _ = try lockbox.unarchiveObject(String.self, forKey: "missing") },
            { _ = try lockbox.allKeys() },
            { try lockbox.archiveObject("new", forKey: "victim") },
            { try lockbox.removeObject(forKey: "victim") },
            { try lockbox.removeAllObjects() },
        ]
        for call in calls {
            let error = lockboxError(call)
            #expect(
                error.map { expected.contains($0.code) } ?? false,
                "\(what): \(String(describing: error))"
            )
        }
        if try store.snapshot() != before { Issue.record("\(what): something was written") }
    }

    @Test("Promise 4: any changed bit in the keybag is detected") func everyBitOfTheKeybag() throws {
        let keybag = try readBytes(store.keybag)
        for index in keybag.indices {
            var bytes = keybag
            bytes[index] ^= 1 << (index % 8)
            try overwriteBoth(store.keybag, bytes)
            try expectKeybagRefusal("byte \(index)")
        }
        let deviceKeys = try store.deviceKeys()
        for index in keybag.indices {
            for bit in 0..<8 {
                var bytes = keybag
                bytes[index] ^= 1 << bit
                var fault: RecordError?
                do { _ = try Keybag.read(bytes, deviceKeys) } catch let error as RecordError { fault = error }
                let expected: RecordError? =
                    switch index {
                    case 0..<4: .malformed("it does not begin with the expected bytes")
                    case 4: .unsupportedVersion(Int(bytes[4]))
                    case 5: .unsupportedVersion(Int(bytes[5]))
                    case 6, 7: .malformed("its header is not well-formed")
                    default: .notAuthentic
                    }
                #expect(fault == expected, "bit \(bit) of byte \(index)")
            }
        }
    }

    @Test func everyLengthOfTheKeybag() throws {
        let keybag = try readBytes(store.keybag)
        let deviceKeys = try store.deviceKeys()
        for length in keybag.indices {
            #expect(throws: RecordError.self, "length \(length)") {
                try Keybag.read(Array(keybag[..<length]), deviceKeys)
            }
        }
        for length in stride(from: 0, to: keybag.count, by: 13) {
            try overwriteBoth(store.keybag, Array(keybag[..<length]))
            try expectKeybagRefusal("length \(length)")
        }
        try overwriteBoth(store.keybag, keybag + [0])
        try expectKeybagRefusal("a byte more")
        try overwriteBoth(store.keybag, keybag)
        #expect(try store.lockbox().unarchiveObject(forKey: "victim") == "of the victim", "the control")
    }

    @Test func keysOfAnotherStore() throws {
        let stranger = try TestStore()
        try stranger.lockbox().archiveObject("of a stranger", forKey: "victim")
        let own = (keybag: try readBytes(store.keybag), deviceKey: try readBytes(store.deviceKey))

        try overwriteBoth(store.keybag, readBytes(stranger.keybag))
        try expectKeybagRefusal("another store's keybag", [.deviceKeyMismatch])
        try overwriteBoth(store.deviceKey, readBytes(stranger.deviceKey))
        try expectKeybagRefusal("another store's keybag and device key", [.authenticationFailed])
        try overwriteBoth(store.keybag, own.keybag)
        try expectKeybagRefusal("another store's device key", [.deviceKeyMismatch])
        try overwriteBoth(store.deviceKey, own.deviceKey)
        #expect(try store.lockbox().unarchiveObject(forKey: "victim") == "of the victim", "the control")
    }

    /// Never taken for a new store, which would begin with new keys.
    @Test(arguments: ["keybag", "device-key"])
    func missingKeys(_ name: String) throws {
        try removeBoth("\(store.directory)/\(name)")
        try expectKeybagRefusal("no \(name)", [.missing])
    }

    @Test func nothingIsWrittenUnderAKeybagThatHasGone() throws {
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("old", forKey: "other")
        try removeBoth(store.keybag)
        expectError(.missing) { try lockbox.archiveObject("new", forKey: "victim") }
        expectError(.missing) {
            try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "victim")
        }
        #expect(try readBytes(path) == original)
    }

    @Test("Promise 4: an item does not open in another folder") func itemInAnotherFolder() throws {
        let there = Path.parent(of: try store.path("victim", prefix: "com.example.other"))
        let name = String(path.split(separator: "/").last!)
        try overwrite("\(there)/\(name)", original)
        let other = try store.lockbox("com.example.other")
        expectError(.authenticationFailed) { try other.allKeys() }
        #expect(try other.unarchiveObject(forKey: "victim") == "of the other prefix")
    }

    @Test func keysThatGoWhileTheStoreIsOpen() throws {
        let lockbox = try store.lockbox()
        #expect(try lockbox.unarchiveObject(forKey: "victim") == "of the victim")
        try FileManager.default.removeItem(atPath: store.directory)
        #expect(
            lockboxError { try lockbox.unarchiveObject(String.self, forKey: "victim") } != nil,
            "not nil: it is not absent"
        )
        #expect(lockboxError { try lockbox.archiveObject("new", forKey: "victim") } != nil)
        #expect(!FileManager.default.fileExists(atPath: store.directory))
    }

    @Test("Promise 9: a newer keybag is refused and never rewritten") func newerKeybag() throws {
        var keybag = try readBytes(store.keybag)
        for (offset, number) in [(4, 2), (5, 5), (5, 3)] as [(Int, UInt8)] {
            let byte = keybag[offset]
            keybag[offset] = number
            try overwriteBoth(store.keybag, keybag)
            try expectKeybagRefusal("byte \(offset): \(number)", [.unsupportedVersion])
            keybag[offset] = byte
        }
    }
}
