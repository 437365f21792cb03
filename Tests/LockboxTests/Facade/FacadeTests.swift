import Foundation
import LockboxTesting
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The facade's additions to its backend.
@Suite(.tags(.waits)) struct FacadeTests {
    private let backend = InMemoryBackend()
    private let clock = TestClock()

    private func lockbox(_ prefix: String = "com.example.app", coder: (any ValueCoder)? = nil)
        throws -> Lockbox
    {
        try Lockbox(keyPrefix: prefix, backend: backend, coder: coder, now: { [clock] in clock.now })
    }

    @Test func archivesAndUnarchives() throws {
        let lockbox = try lockbox()
        try lockbox.archiveObject("secret", forKey: "key")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == "secret")
        let inferred: String? = try lockbox.unarchiveObject(forKey: "key")
        #expect(inferred == "secret")
        #expect(try lockbox.containsObject(forKey: "key"))
        #expect(try lockbox.allKeys() == ["key"])
    }

    @Test func nilRemovesReally() throws {
        let lockbox = try lockbox()
        for policy in WritePolicy.allCases {
            try lockbox.archiveObject("secret", forKey: "key")
            try lockbox.archiveObject(nil as String?, forKey: "key", options: WriteOptions(policy: policy))
            #expect(try !lockbox.containsObject(forKey: "key"))
            #expect(try lockbox.list().items.isEmpty)
        }
    }

    @Test func keepsAttributes() throws {
        let lockbox = try lockbox()
        let expires = clock.now + 100
        try lockbox.archiveObject(
            [1, 2],
            forKey: "key",
            options: WriteOptions(
                accessibility: .afterFirstUnlock,
                expires: .at(expires),
                label: "L",
                comment: "C"
            )
        )
        clock.now += 10
        let attributes = try #require(try lockbox.attributes(forKey: "key"))
        #expect(attributes.accessibility == .afterFirstUnlock)
        #expect(attributes.created == clock.now - 10)
        #expect(attributes.modified == clock.now - 10)
        #expect(attributes.expires == expires)
        #expect(attributes.label == "L")
        #expect(attributes.comment == "C")
        #expect(attributes.size == 5)
        #expect(attributes.format == .json)
        #expect(try lockbox.list().items == ["key": attributes])
    }

    @Test func changesAccessibility() throws {
        let lockbox = try lockbox()
        try lockbox.archiveObject("secret", forKey: "key")
        try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "key")
        #expect(try lockbox.attributes(forKey: "key")?.accessibility == .always)
        #expect(throws: LockboxError.itemNotFound(key: "missing")) {
            try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "missing")
        }
    }

    @Test func expiredReadsAsAbsentEverywhere() throws {
        let lockbox = try lockbox()
        try lockbox.archiveObject(
            "secret",
            forKey: "key",
            options: WriteOptions(expires: .at(clock.now + 60))
        )
        clock.now += 60
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == nil)
        #expect(try !lockbox.containsObject(forKey: "key"))
        #expect(try lockbox.attributes(forKey: "key") == nil)
        #expect(try lockbox.allKeys().isEmpty)
        clock.now -= 1
        #expect(try lockbox.unarchiveObject(forKey: "key") == "secret", "a wrong clock destroys nothing")
        clock.now += 1
        #expect(try lockbox.removeExpired() == 1)
        clock.now -= 1
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == nil)
    }

    @Test func removesOnlyItsOwnPrefix() throws {
        let (one, other) = (try lockbox("a"), try lockbox("a.b"))
        try one.archiveObject("one", forKey: "b.c")
        try other.archiveObject("other", forKey: "c")
        try one.removeAllObjects()
        #expect(try one.allKeys().isEmpty)
        #expect(try other.unarchiveObject(forKey: "c") == "other")
    }

    @Test func refusesEmptyAndOverlongNames() throws {
        expectError(.invalidKey) { try self.lockbox("") }
        expectError(.invalidKey, "kept for Lockbox itself") { try self.lockbox("\0own") }
        expectError(.invalidKey) { try self.lockbox(String(repeating: "x", count: 4097)) }
        let lockbox = try lockbox()
        for key in ["", String(repeating: "x", count: 4097), String(repeating: "e\u{301}", count: 1400)] {
            expectError(.invalidKey) { try lockbox.archiveObject(1, forKey: key) }
            expectError(.invalidKey) { try lockbox.unarchiveObject(Int.self, forKey: key) }
            expectError(.invalidKey) { try lockbox.removeObject(forKey: key) }
        }
        let long = String(repeating: "x", count: 4097)
        expectError(.invalidAttribute) {
            try lockbox.archiveObject(1, forKey: "k", options: WriteOptions(label: .set(long)))
        }
        expectError(.invalidAttribute) {
            try lockbox.archiveObject(1, forKey: "k", options: WriteOptions(comment: .set(long)))
        }
        let never = Date(timeIntervalSinceReferenceDate: .nan)
        expectError(.invalidAttribute) {
            try lockbox.archiveObject(1, forKey: "k", options: WriteOptions(expires: .at(never)))
        }
        #expect(try lockbox.allKeys().isEmpty)
    }

    @Test func coderCanBeReplacedAndIsNotMistaken() throws {
        let reversed = try lockbox(coder: ReversedCoder())
        try reversed.archiveObject("secret", forKey: "key")
        #expect(try reversed.unarchiveObject(forKey: "key") == "secret")
        #expect(try reversed.attributes(forKey: "key")?.format == ValueFormat(rawValue: 128))
        expectError(.typeMismatch) { try lockbox().unarchiveObject(String.self, forKey: "key") }
        try lockbox().archiveObject("secret", forKey: "key")
        expectError(.typeMismatch) { try reversed.unarchiveObject(String.self, forKey: "key") }
    }

    @Test func asyncCallsDoTheSame() async throws {
        let lockbox = try lockbox()
        try await lockbox.archiveObject(
            "secret",
            forKey: "key",
            options: WriteOptions(label: "L", policy: .addOnly)
        )
        let value: String? = try await lockbox.unarchiveObject(forKey: "key")
        #expect(value == "secret")
        try await lockbox.async { lockbox in
            #expect(try lockbox.containsObject(forKey: "key"))
            #expect(try lockbox.attributes(forKey: "key")?.label == "L")
            try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "key")
            #expect(try lockbox.allKeys() == ["key"])
            #expect(try lockbox.list().items["key"]?.accessibility == .always)
            #expect(try lockbox.removeExpired() == 0)
        }
        try await lockbox.removeObject(forKey: "key")
        #expect(try await lockbox.unarchiveObject(String.self, forKey: "key") == nil)
        try await lockbox.archiveObject("secret", forKey: "key")
        try await lockbox.archiveObject(nil as String?, forKey: "key")
        try await lockbox.archiveObject("secret", forKey: "other")
        try await lockbox.async { try $0.removeAllObjects() }
        #expect(try await lockbox.async { try $0.allKeys() }.isEmpty)
        let error = await #expect(throws: LockboxError.self) {
            try await lockbox.unarchiveObject(String.self, forKey: "")
        }
        #expect(error?.code == .invalidKey)
    }

    /// Of a class that is not Sendable, as a view model's values may be.
    @MainActor @Test func asyncCallsTakeValuesThatAreNotSendable() async throws {
        final class Settings: Codable { var theme = "dark" }
        let lockbox = try lockbox()
        let settings = Settings()
        try await lockbox.archiveObject(settings, forKey: "settings")
        #expect(try await lockbox.unarchiveObject(Settings.self, forKey: "settings")?.theme == settings.theme)
    }

    /// More calls than the cooperative pool has threads, each of which waits until all of them have begun.
    @Test(.timeLimit(.minutes(10))) func asyncCallsDoNotBlockThePool() async throws {
        let count = 2 * ProcessInfo.processInfo.activeProcessorCount + 2
        let backend = RendezvousBackend(count)
        let lockbox = try backend.lockbox("com.example.app")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<count { group.addTask { try await lockbox.removeObject(forKey: "key") } }
            try await group.waitForAll()
        }
    }

    @Test func appCanTestItsErrorPaths() throws {
        let failing = FailingBackend(backend)
        let lockbox = try failing.lockbox("com.example.app")
        try lockbox.archiveObject("secret", forKey: "key")
        failing.fail(.read, times: 2, with: LockboxError.interactionNotAllowed(.whenUnlocked))
        for _ in 0..<2 {
            expectError(.interactionNotAllowed) { try lockbox.unarchiveObject(String.self, forKey: "key") }
        }
        #expect(try lockbox.unarchiveObject(forKey: "key") == "secret")
        failing.fail(with: LockboxError.storageFailure(operation: "open", path: "x", errno: EIO))
        let calls: [() throws -> Void] = [
            { _ = try lockbox.unarchiveObject(String.self, forKey: "key") },
            { try lockbox.archiveObject("new", forKey: "key") },
            { _ = try lockbox.attributes(forKey: "key") },
            { _ = try lockbox.allKeys() },
            { try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "key") },
            { try lockbox.removeObject(forKey: "key") },
            { try lockbox.removeAllObjects() },
            { try lockbox.removeExpired() },
        ]
        for call in calls { #expect(lockboxError(call)?.code == .storageFailure) }
        failing.succeed()
        #expect(try lockbox.unarchiveObject(forKey: "key") == "secret")
    }
}

@Suite struct CheckAccessTests {
    @Test func aFolderOfThePrefixThatCannotBeUsedIsNoticed() throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try lockbox.archiveObject("v", forKey: "k")
        try lockbox.checkAccess()
        let folder = Path.parent(of: try store.path("k"))
        chmod(folder, 0o777)
        #expect(throws: LockboxError.self) { try store.lockbox().checkAccess() }
        chmod(folder, 0o700)
        try store.lockbox().checkAccess()
    }
}

/// A clock that goes when the test says so. Used by one thread at a time.
final class TestClock: @unchecked Sendable {
    var now = Date(timeIntervalSinceReferenceDate: 800_000_000)
}

struct ReversedCoder: ValueCoder {
    let format = ValueFormat(rawValue: 128)

    func encode<Value: Encodable>(_ value: Value) throws -> Data {
        Data(try JSONEncoder().encode(value).reversed())
    }

    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        try JSONDecoder().decode(type, from: Data(data.reversed()))
    }
}

/// Lets nobody go before `count` calls have come. Only `remove` is called.
final class RendezvousBackend: LockboxBackend {
    private let condition = NSCondition()
    /// A test that hangs tells nobody which it is. All other tests may come before the last call.
    private let deadline = Date(timeIntervalSinceNow: 400)
    private nonisolated(unsafe) var missing: Int  // guarded by the condition

    init(_ count: Int) { missing = count }

    func remove(_ key: ItemKey) throws {
        try condition.withLock {
            missing -= 1
            condition.broadcast()
            while missing > 0 {
                guard condition.wait(until: deadline) else { throw CancellationError() }
            }
        }
    }

    func write(_ changes: ItemChanges, to key: ItemKey) {}
    func item(for key: ItemKey, now: Date?) -> StoredItem? { nil }
    func attributes(for key: ItemKey, now: Date?) -> ItemAttributes? { nil }
    func attributes(prefix: String, now: Date?) -> [ItemKey: ItemAttributes] { [:] }
    func prefixes() -> Set<String> { [] }
    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) {}
    func removeAll(prefix: String) {}
    func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) -> Int { 0 }
}
