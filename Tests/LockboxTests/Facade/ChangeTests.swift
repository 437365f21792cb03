import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Promise 11, and changes in one step.
@Suite struct ChangeTests {
    private let store: TestStore
    private let lockbox: Lockbox
    private let now = Date(timeIntervalSinceReferenceDate: 800_000_000)

    init() throws {
        store = try TestStore()
        let date = now
        lockbox = try store.lockbox { date }
    }

    private func later(_ seconds: TimeInterval, _ backend: (any LockboxBackend)? = nil) throws -> Lockbox {
        let date = now + seconds
        return try (backend ?? lockbox.backend).lockbox { date }
    }

    private func archive(
        _ key: String = "key",
        _ accessibility: Accessibility = .afterFirstUnlock,
        in lockbox: Lockbox? = nil
    ) throws {
        try (lockbox ?? self.lockbox).archiveObject(
            "v1",
            forKey: key,
            options: WriteOptions(
                accessibility: accessibility,
                expires: .after(7 * 86_400),
                label: "label",
                comment: "comment",
                attributes: ["server": "example.com"]
            )
        )
    }

    // MARK: Promise 11

    @Test("Promise 11: an update keeps what it does not name") func anUpdateKeepsWhatItDoesNotName() throws {
        try archive()
        try later(5).archiveObject("v2", forKey: "key", options: WriteOptions(policy: .updateOnly))
        let item = try #require(try lockbox.unarchiveItem(String.self, forKey: "key"))
        #expect(item.value == "v2")
        #expect(item.attributes.accessibility == .afterFirstUnlock)
        #expect(item.attributes.expires == now + 7 * 86_400)
        #expect(item.attributes.label == "label" && item.attributes.comment == "comment")
        #expect(item.attributes.searchable == ["server": "example.com"])
        #expect(item.attributes.created == now && item.attributes.modified == now + 5)
    }

    @Test("Promise 11: a replace sets only the expiry anew") func aReplaceSetsTheExpiryAnew() throws {
        try archive("key", .whenUnlockedThisDeviceOnly)
        try lockbox.archiveObject("v2", forKey: "key")
        let attributes = try #require(try lockbox.attributes(forKey: "key"))
        #expect(attributes.accessibility == .whenUnlockedThisDeviceOnly, "it would be in the next backup")
        #expect(attributes.expires == nil)
        #expect(attributes.label == "label" && attributes.searchable == ["server": "example.com"])
        try lockbox.archiveObject(
            "v3",
            forKey: "key",
            options: WriteOptions(label: .removed, attributes: .removed)
        )
        let after = try #require(try lockbox.attributes(forKey: "key"))
        #expect(after.label == nil && after.searchable.isEmpty && after.comment == "comment")
    }

    @Test("Promise 11: a token is refreshed while the store is locked") func refreshWhileLocked() throws {
        let backend = try store.backend().setUp()
        try archive(in: later(0, backend))
        try backend.lock()
        let locked = try later(5, backend)
        let name = Accessibility.afterFirstUnlock
        try locked.archiveObject(
            "v2",
            forKey: "key",
            options: WriteOptions(accessibility: name, policy: .updateOnly)
        )
        try locked.update("key", as: String.self, options: WriteOptions(accessibility: name)) { $0? += "!" }
        #expect(try locked.unarchiveObject(forKey: "key") == "v2!")
        #expect(try locked.attributes(forKey: "key")?.accessibility == .afterFirstUnlock)
        #expect(try locked.attributes(forKey: "key")?.label == "label")
        let unnamed = LockboxError.classNotProven(.afterFirstUnlock)
        #expect(throws: unnamed) { try locked.archiveObject("v3", forKey: "key") }
        #expect(throws: unnamed) { try locked.update("key", as: String.self) { $0? += "?" } }
        #expect(try locked.unarchiveObject(forKey: "key") == "v2!")
        expectError(.interactionNotAllowed) { try locked.archiveObject("new", forKey: "other") }
    }

    @Test(arguments: [true, false]) func anExpiryRevives(inMemory: Bool) throws {
        let backend: any LockboxBackend = inMemory ? InMemoryBackend() : store.backend()
        try archive(in: later(0, backend))
        let late = try later(30 * 86_400, backend)
        #expect(try late.unarchiveObject(String.self, forKey: "key") == nil)
        expectError(.itemNotFound) { try late.setAttributes(WriteOptions(label: "label"), forKey: "key") }
        try late.setAttributes(WriteOptions(expires: .never), forKey: "key")
        #expect(try late.unarchiveObject(forKey: "key") == "v1")
        #expect(try late.attributes(forKey: "key")?.label == "label")
    }

    /// Nothing can be kept of what cannot be read.
    @Test func aDamagedItemIsReplacedAndNotUpdated() throws {
        try archive()
        let path = try store.path("key")
        var bytes = try readBytes(path)
        bytes[40] ^= 1
        try overwrite(path, bytes)
        let damaged = try store.lockbox()
        for policy in [WritePolicy.updateOnly, .addOnly] {
            expectError(policy == .addOnly ? .duplicateItem : .authenticationFailed) {
                try damaged.archiveObject("v2", forKey: "key", options: WriteOptions(policy: policy))
            }
        }
        expectError(.authenticationFailed) {
            try damaged.setAttributes(WriteOptions(label: "new"), forKey: "key")
        }
        expectError(.authenticationFailed) { try damaged.update("key", as: String.self) { $0 = "new" } }
        #expect(try readBytes(path) == bytes)
        try damaged.archiveObject("v2", forKey: "key")
        #expect(try damaged.attributes(forKey: "key")?.accessibility == .whenUnlocked)
    }

    @Test func anExpiredItemIsAbsentAlsoWhileItIsLocked() throws {
        let backend = try store.backend().setUp()
        try later(0, backend).archiveObject("v1", forKey: "key", options: WriteOptions(expires: .after(60)))
        try backend.lock()
        let live = try later(59, store.backend())
        expectError(.interactionNotAllowed) { try live.unarchiveObject(String.self, forKey: "key") }
        let expired = try later(60, store.backend())
        #expect(try expired.unarchiveObject(String.self, forKey: "key") == nil)
        #expect(try expired.unarchiveItem(String.self, forKey: "key") == nil)
        var seen: String? = "nothing"
        try expired.update("key", as: String.self) { seen = $0 }
        #expect(seen == nil)
        expectError(.itemNotFound) { try expired.setAttributes(WriteOptions(label: "new"), forKey: "key") }
    }

    // MARK: In one step

    @Test func updates() throws {
        #expect(
            try lockbox.update("count", as: Int.self, options: WriteOptions(accessibility: .always)) {
                $0 = ($0 ?? 0) + 1
            } == 1
        )
        #expect(
            try lockbox.update("count", options: WriteOptions(label: "visits")) { (count: inout Int?) in
                count = count! + 1
            } == 2
        )
        let attributes = try #require(try lockbox.attributes(forKey: "count"))
        #expect(attributes.accessibility == .always && attributes.label == "visits")

        struct Refusal: Error {}
        #expect(throws: Refusal.self) {
            try lockbox.update("count", as: Int.self) { count in
                count = 7
                throw Refusal()
            }
        }
        #expect(try lockbox.unarchiveObject(forKey: "count") == 2)
        expectError(.decodingFailed) { try lockbox.update("count", as: String.self) { _ in } }
        #expect(try lockbox.update("count", as: Int.self) { $0 = nil } == nil)
        #expect(try !lockbox.containsObject(forKey: "count"))
    }

    @Test func anUpdateKeepsTheExpiry() throws {
        try archive()
        try later(5).update("key", as: String.self) { $0 = "v2" }
        #expect(try lockbox.attributes(forKey: "key")?.expires == now + 7 * 86_400)
        try later(5).update("key", as: String.self, options: WriteOptions(expires: .after(10))) { $0 = "v3" }
        #expect(try lockbox.attributes(forKey: "key")?.expires == now + 15)
        try later(20).update("key", as: String.self) { old in
            #expect(old == nil)
            old = "v4"
        }
        #expect(try lockbox.attributes(forKey: "key")?.expires == nil)
    }

    @Test(arguments: [true, false]) func fourThreadsCount(_ isInMemory: Bool) async throws {
        let memory = InMemoryBackend()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                let backend: any LockboxBackend =
                    isInMemory ? memory : store.backend(lockTimeout: .seconds(60))
                let lockbox = try backend.lockbox()
                group.addTask {
                    for _ in 0..<200 {
                        try await lockbox.update("count", as: Int.self) { $0 = ($0 ?? 0) + 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        let backend: any LockboxBackend = isInMemory ? memory : store.backend()
        let lockbox = try backend.lockbox()
        let count = try await lockbox.unarchiveObject(Int.self, forKey: "count")
        #expect(count == 800)
    }

    // MARK: Attributes, several keys

    @Test func attributesWithoutTheValue() throws {
        try archive()
        try later(5).setAttributes(
            WriteOptions(expires: .never, label: "new", attributes: .removed),
            forKey: "key"
        )
        let item = try #require(try lockbox.unarchiveItem(String.self, forKey: "key"))
        #expect(item.value == "v1")
        #expect(item.attributes.expires == nil && item.attributes.label == "new")
        #expect(item.attributes.searchable.isEmpty && item.attributes.accessibility == .afterFirstUnlock)
        expectError(.itemNotFound) {
            try lockbox.setAttributes(WriteOptions(label: "new"), forKey: "missing")
        }
        #expect(try !lockbox.containsObject(forKey: "missing"))
    }

    @Test func severalKeys() throws {
        for number in 0..<5 { try lockbox.archiveObject(number, forKey: "\(number)") }
        let found = try lockbox.unarchiveObjects(Int.self, forKeys: ["1", "3", "3", "missing"])
        #expect(found == ["1": 1, "3": 3])
        #expect(try lockbox.unarchiveObjects(Int.self, forKeys: []).isEmpty)
        expectError(.decodingFailed) { try lockbox.unarchiveObjects(String.self, forKeys: ["1"]) }
    }

    @Test func matching() throws {
        try archive()
        try archive("other")
        try lockbox.setAttributes(
            WriteOptions(attributes: ["server": "example.org", "account": "alice"]),
            forKey: "other"
        )
        #expect(try Set(lockbox.list(matching: ["server": "example.com"]).items.keys) == ["key"])
        #expect(try Set(lockbox.list(matching: ["account": "alice"]).items.keys) == ["other"])
        #expect(try lockbox.list().items.count == 2)
    }

    @Test func limitsOfSearchableAttributes() throws {
        let most = Dictionary(uniqueKeysWithValues: (0..<64).map { ("n\($0)", "") })
        try lockbox.archiveObject("v", forKey: "key", options: WriteOptions(attributes: .set(most)))
        #expect(try store.lockbox().attributes(forKey: "key")?.searchable == most)
        let text = String(repeating: "x", count: 4096)
        let wrong: [[String: String]] = [
            most.merging(["one more": ""]) { $1 }, ["": "text"], ["name": text + "x"],
            [String(repeating: "n", count: 257): ""], ["a": text, "b": text, "c": text, "d": text],
        ]
        for attributes in wrong {
            expectError(.invalidAttribute) {
                try lockbox.archiveObject(
                    "v",
                    forKey: "key",
                    options: WriteOptions(attributes: .set(attributes))
                )
            }
        }
        let longest = [
            "a": text, "b": text, "c": text, String(repeating: "d", count: 256): String(text.dropLast(259)),
        ]
        try lockbox.archiveObject("v", forKey: "key", options: WriteOptions(attributes: .set(longest)))
        #expect(try store.lockbox().attributes(forKey: "key")?.searchable == longest)
        #expect(try store.lockbox().list().items["key"]?.searchable == longest)
    }
}
