import Foundation
import Lockbox
import LockboxTesting
import Testing

@testable import LockboxCore
@testable import LockboxStore

/// Lockbox 2's getters, called without their warnings.
private protocol Getters {
    func setString(_ value: String?, forKey key: String, accessibility: Accessibility?) -> Bool
    func setArray(_ value: [String]?, forKey key: String, accessibility: Accessibility?) -> Bool
    func string(forKey key: String) -> String?
    func array(forKey key: String) -> [String]?
    func set(forKey key: String) -> Set<String>?
    func dictionary(forKey key: String) -> [String: String]?
    func date(forKey key: String) -> Date?
}

extension Lockbox: Getters {}

/// A nil that does not mean "absent" removes nothing, and any other nil removes.
@Suite struct NilTests {
    private let store: TestStore
    private let backend: EncryptedFileBackend
    private let lockbox: Lockbox
    private var v2: any Getters { lockbox }

    init() throws {
        store = try TestStore()
        backend = try store.backend().setUp(items: ["key": .whenUnlocked])
        lockbox = try backend.lockbox()
    }

    private typealias Archiving = @Sendable (Lockbox) throws -> Void

    /// Everything that an app can do with what a getter has returned. Each is called with an item "key" that is there.
    private static let archivings: [(what: String, body: Archiving)] = [
        (
            "string",
            { try $0.archiveObject(($0 as any Getters).string(forKey: "key"), forKey: "key") }
        ),
        ("array", { try $0.archiveObject(($0 as any Getters).array(forKey: "key"), forKey: "key") }),
        ("set", { try $0.archiveObject(($0 as any Getters).set(forKey: "key"), forKey: "key") }),
        (
            "dictionary",
            { try $0.archiveObject(($0 as any Getters).dictionary(forKey: "key"), forKey: "key") }
        ),
        ("date", { try $0.archiveObject(($0 as any Getters).date(forKey: "key"), forKey: "key") }),
        (
            "through a variable and a conversion",
            {
                let number = ($0 as any Getters).string(forKey: "key").flatMap(Int.init)
                try $0.archiveObject(number, forKey: "key", options: WriteOptions(policy: .updateOnly))
            }
        ),
        (
            "in a batch",
            { lockbox in
                try lockbox.batch { batch in
                    try batch.archiveObject(
                        "new",
                        forKey: "other",
                        options: WriteOptions(accessibility: .always)
                    )
                    try batch.archiveObject((lockbox as any Getters).string(forKey: "key"), forKey: "key")
                }
            }
        ),
        (
            "with a typed key",
            {
                let key = LockboxKey<String?>("key")
                try $0.archiveObject(($0 as any Getters).string(forKey: "key"), forKey: key)
            }
        ),
        (
            "with a typed key in a batch",
            { lockbox in
                try lockbox.batch {
                    let key = LockboxKey<String?>("key")
                    try $0.archiveObject((lockbox as any Getters).string(forKey: "key"), forKey: key)
                }
            }
        ),
        (
            "in an update",
            { lockbox in
                let value = (lockbox as any Getters).string(forKey: "key")
                try lockbox.update("key", as: String.self) { $0 = value }
            }
        ),
        (
            "with try?",
            { try $0.archiveObject(try? $0.unarchiveObject(String.self, forKey: "key"), forKey: "key") }
        ),
        (
            "through a generic parameter",
            { lockbox in
                func store<Value: Codable>(_ value: Value) throws {
                    try lockbox.archiveObject(value, forKey: "key")
                }
                try store((lockbox as any Getters).string(forKey: "key"))
            }
        ),
    ]

    @Test func aLockedItemIsNotRemovedByNil() throws {
        try backend.lock()
        for (what, archive) in Self.archivings {
            expectError(.interactionNotAllowed, "\(what)") {
                // In a batch and in an update, the getter's nil is noticed first.
                do { try archive(lockbox) } catch let error as LockboxError where error.code == .invalidKey {
                    throw LockboxError.interactionNotAllowed(.whenUnlocked)
                }
            }
        }
        #expect(!v2.setString(v2.string(forKey: "key"), forKey: "key", accessibility: nil))
        #expect(!v2.setArray(v2.array(forKey: "key"), forKey: "key", accessibility: nil))
        try backend.unlock(.value("1234"))
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
        #expect(try lockbox.allKeys() == ["key"], "of a batch that is refused, nothing is done")
        try backend.lock()
        try lockbox.removeObject(forKey: "key")
        #expect(try lockbox.allKeys() == [], "this removes any item")
    }

    /// Only the getter knows that its nil means nothing.
    @Test func aNilFromALockedStoreRemovesNothingLater() throws {
        try backend.lock()
        let (nothing, again) = (v2.string(forKey: "key"), try store.lockbox())
        try backend.unlock(.value("1234"))
        #expect(v2.string(forKey: "key") == "old", "another thread may have read it since")
        let refusal = "a method of Lockbox 2 has returned nil for it"
        expectError(.invalidKey, saying: refusal) { try lockbox.archiveObject(nothing, forKey: "key") }
        expectError(.invalidKey) { try lockbox.batch { try $0.archiveObject(nothing, forKey: "key") } }
        expectError(.invalidKey) { try lockbox.update("key", as: String.self) { $0 = nothing } }
        expectError(.invalidKey) { try lockbox.archiveObject(nothing, forKey: LockboxKey<String?>("key")) }
        expectError(.invalidKey, "opened again") { try again.archiveObject(nothing, forKey: "key") }
        #expect(!v2.setString(nothing, forKey: "key", accessibility: nil))
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
        try lockbox.removeObject(forKey: "key")
        #expect(try !lockbox.containsObject(forKey: "key"))
    }

    @Test(arguments: ["changed", "open to all", "another type"]) func unreadableIsNotRemovedByNil(
        _ way: String
    ) throws {
        try lockbox.archiveObject(7, forKey: "key")
        let path = try store.path("key")
        let bytes = try readBytes(path)
        switch way {
        case "changed": try store.damage("key")
        case "open to all": chmod(path, 0o644)
        default: break
        }
        let nothing = v2.string(forKey: "key")
        #expect(nothing == nil)
        #expect(throws: LockboxError.self) { try lockbox.archiveObject(nothing, forKey: "key") }
        if way != "another type" {
            #expect(throws: LockboxError.self) {
                try lockbox.archiveObject(
                    try? lockbox.unarchiveObject(Int.self, forKey: "key"),
                    forKey: "key"
                )
            }
        }
        try overwrite(path, bytes)
        chmod(path, 0o600)
        #expect(throws: LockboxError.self) { try lockbox.archiveObject(nothing, forKey: "key") }
        #expect(try store.backend().unlocked().lockbox().unarchiveObject(forKey: "key") == 7)
    }

    /// A lockbox is told from others by its store, or by its backend.
    @Test func theAnswerOfAnotherStoreIsNoReason() throws {
        try backend.lock()
        #expect(v2.string(forKey: "key") == nil)
        let failing = FailingBackend()
        failing.fail(.read, with: LockboxError.interactionNotAllowed(.whenUnlocked))
        #expect((try failing.lockbox() as any Getters).string(forKey: "key") == nil)
        expectError(.interactionNotAllowed, "as a real store does") {
            try FailingBackend().lockbox().archiveObject("v", forKey: "key")
            try failing.lockbox("other").archiveObject(nil as String?, forKey: "key")
        }
        for other in [try TestStore().backend() as any LockboxBackend, InMemoryBackend(), FailingBackend()] {
            let other = try other.lockbox()
            try other.archiveObject("v", forKey: "key")
            try other.archiveObject(nil as String?, forKey: "key")
            #expect(try other.allKeys() == [])
        }
    }

    @Test func anExpiredItemIsRemovedByNilAlsoWhileItIsLocked() throws {
        try lockbox.archiveObject("v", forKey: "key", options: WriteOptions(expires: .at(.distantPast)))
        let path = try store.path("key")
        try backend.lock()
        try lockbox.archiveObject(nil as String?, forKey: "key")
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func nilForAnAbsentItemChangesNothing() throws {
        let other = try TestStore()
        try other.lockbox().archiveObject(nil as String?, forKey: "key")
        #expect(!FileManager.default.fileExists(atPath: other.directory), "not even a store is made")
        let before = try store.snapshot()
        try lockbox.archiveObject(nil as String?, forKey: "missing")
        try backend.lockbox("another prefix").archiveObject(nil as String?, forKey: "missing")
        #expect(try store.snapshot() == before)
    }

    // MARK: Nil of a type that only the caller knows

    private func archive<Value: Codable & Sendable>(_ value: Value, _ form: Int) throws {
        switch form {
        case 0: try lockbox.archiveObject(value, forKey: "key")
        case 1: try lockbox.batch { try $0.archiveObject(value, forKey: "key") }
        case 2: try lockbox.archiveObject(value, forKey: LockboxKey("key", default: value))
        case 3: try lockbox.update("key", as: Value.self) { $0 = value }
        case 4: try lockbox.batch { try $0.archiveObject(value, forKey: LockboxKey("key", default: value)) }
        default:
            func store(_ value: some Codable) throws { try lockbox.archiveObject(value, forKey: "key") }
            let unknown: any Codable = value
            try store(unknown)
        }
    }

    @Test(arguments: 0..<6) func nilOfAGenericParameterRemoves(_ form: Int) throws {
        func expectRemoval(_ value: some Codable & Sendable) throws {
            // An update reads the old value first, as the type of the new one.
            if form == 3 {
                try lockbox.removeObject(forKey: "key")
            } else {
                try lockbox.archiveObject("old", forKey: "key")
            }
            try archive(value, form)
            #expect(try !lockbox.containsObject(forKey: "key"))
        }
        try archive(nil as String?, form)
        #expect(try !lockbox.containsObject(forKey: "key"))
        try expectRemoval(nil as String?)
        try expectRemoval(nil as Data?)
        try expectRemoval(.some(nil) as String??)
        try expectRemoval(.some(.some(nil)) as Int???)
    }

    @Test(arguments: 0..<6) func otherOptionalsAreStoredAsTheirValues(_ form: Int) throws {
        try lockbox.removeObject(forKey: "key")
        try archive(Data([1]) as Data?, form)
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "key") == Data([1]))
        #expect(try lockbox.unarchiveObject(Data?.self, forKey: "key") == .some(Data([1])))
        #expect(try lockbox[LockboxKey<Data?>("key")] == Data([1]))
        try lockbox.removeObject(forKey: "key")
        try archive("text" as String??, form)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == "text")
        #expect(try lockbox.unarchiveObject(String??.self, forKey: "key") == .some(.some("text")))
        try lockbox.removeObject(forKey: "key")
        try archive([nil, "text"], form)
        #expect(try lockbox.unarchiveObject([String?].self, forKey: "key") == [nil, "text"])
    }
}

extension SealedBackend {
    fileprivate func unlocked() throws -> SealedBackend {
        try unlock(.value("1234"))
        return self
    }
}
