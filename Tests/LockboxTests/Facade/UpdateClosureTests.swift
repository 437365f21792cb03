import Foundation
import Lockbox
import LockboxTesting
import Testing

@testable import LockboxCore
@testable import LockboxStore

/// A change within the closure of an update would wait for itself, or start the update again for ever.
@Suite struct UpdateClosureTests {
    private static let changes: [(what: String, body: @Sendable (Lockbox) throws -> Void)] = [
        ("update", { try $0.update("key", as: String.self) { $0 = "inner" } }),
        ("update of a typed key", { try $0.update(LockboxKey<String?>("key")) { $0 = "inner" } }),
        ("update of another key", { try $0.update("other", as: String.self) { $0 = "inner" } }),
        ("archiveObject", { try $0.archiveObject("inner", forKey: "other") }),
        ("archiveObject(nil)", { try $0.archiveObject(nil as String?, forKey: "key") }),
        (
            "archiveObject of a typed key",
            { try $0.archiveObject("inner", forKey: LockboxKey<String?>("key")) }
        ),
        ("removeObject", { try $0.removeObject(forKey: "other") }),
        ("removeAllObjects", { try $0.removeAllObjects() }),
        ("removeExpired", { try $0.removeExpired() }),
        ("setAttributes", { try $0.setAttributes(WriteOptions(label: "label"), forKey: "key") }),
        ("batch", { try $0.batch { try $0.removeObject(forKey: "other") } }),
        ("copyObject", { try $0.copyObject(forKey: "key", toKey: "copy") }),
        ("moveObject", { try $0.moveObject(forKey: "key", toKey: "moved") }),
        (
            "move from another prefix",
            {
                try Lockbox(keyPrefix: "elsewhere", backend: $0.backend)
                    .moveObject(forKey: "theirs", toKey: "moved", toPrefix: $0.keyPrefix)
            }
        ),
    ]

    private func expectRefusals(_ lockbox: Lockbox, _ inner: Lockbox) throws {
        try lockbox.archiveObject("old", forKey: "key")
        try Lockbox(keyPrefix: "elsewhere", backend: lockbox.backend).archiveObject(
            "theirs",
            forKey: "theirs"
        )
        for (what, change) in Self.changes {
            let start = ContinuousClock.now
            expectError(
                .invalidKey,
                "\(what)",
                saying: "The closure of an update changes an item with the same prefix"
            ) {
                try lockbox.update("key", as: String.self) { value in
                    value = "outer"
                    try change(inner)
                }
            }
            #expect(ContinuousClock.now - start < .milliseconds(500), "\(what)")
        }
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
        #expect(try lockbox.allKeys() == ["key"])
    }

    @Test func aChangeWithinAnUpdateIsRefusedAtOnce() throws {
        let store = try TestStore()
        let lockbox = try store.backend(lockTimeout: .seconds(30)).lockbox()
        try expectRefusals(lockbox, lockbox)
        // Opened a second time.
        try expectRefusals(lockbox, store.backend(lockTimeout: .seconds(30)).lockbox())
    }

    @Test func inMemoryToo() throws {
        let lockbox = try InMemoryBackend().lockbox()
        try expectRefusals(lockbox, lockbox)
    }

    @Test func aBackendThatIsAValueToo() throws {
        struct Backend: ValueBackend {}
        let lockbox = try Backend().lockbox("p")
        expectError(.invalidKey) {
            try lockbox.update("key", as: String.self) { _ in
                try InMemoryBackend().lockbox("p").archiveObject("elsewhere", forKey: "key")
                try Backend().lockbox("other").archiveObject("another prefix", forKey: "key")
                try lockbox.archiveObject("inner", forKey: "key")
            }
        }
    }

    @Test func whatIsElsewhereMayBeChanged() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        let (prefix, other) = (try lockbox.backend.lockbox("another prefix"), try TestStore().lockbox())
        try lockbox.update("key", as: String.self) { value in
            try prefix.archiveObject("theirs", forKey: "key")
            try other.update("key", as: String.self) { $0 = "inner" }
            value = try other.unarchiveObject(forKey: "key")
            _ = try lockbox.unarchiveObject(String.self, forKey: "missing")
        }
        #expect(try lockbox.unarchiveObject(forKey: "key") == "inner")
        #expect(try prefix.unarchiveObject(forKey: "key") == "theirs")
        try lockbox.archiveObject("after it", forKey: "key")
    }

    /// It runs after the update, or on another thread during it.
    @Test func aTaskThatTheClosureStartsMayChangeAnything() async throws {
        let lockbox = try TestStore().lockbox()
        let tasks = Protected<[Task<Void, any Error>]>([])
        try await lockbox.update("key", as: String.self) { value in
            value = "outer"
            tasks.withLock { $0.append(Task { try await lockbox.archiveObject("inner", forKey: "other") }) }
        }
        for task in tasks.withLock({ $0 }) { try await task.value }
        #expect(try await lockbox.unarchiveObject(forKey: "other") == "inner")
    }
}

/// A backend that is a value, and holds nothing.
private protocol ValueBackend: LockboxBackend {}

extension ValueBackend {
    func item(for key: ItemKey, now: Date?) -> StoredItem? { nil }
    func attributes(prefix: String, now: Date?) -> [ItemKey: ItemAttributes] { [:] }
    func prefixes() -> Set<String> { [] }
    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        _ = try change(nil)
    }
    func remove(_ key: ItemKey) {}
}
