import Foundation
import Lockbox
import LockboxTesting
import Testing

private struct Session: Codable, Equatable, Sendable { var token: String }

extension LockboxKey<Session?> {
    fileprivate static var session: Self {
        Self("session", accessibility: .afterFirstUnlock, expires: .after(86_400), label: "Session")
    }
}

extension LockboxKey<Int> {
    fileprivate static var attempts: Self { Self("attempts", default: 3) }
}

extension LockboxKey<Data?> {
    fileprivate static var blob: Self { Self("blob") }
}

@Suite struct TypedKeyTests {
    private let lockbox: Lockbox

    init() throws { lockbox = try InMemoryBackend().lockbox("p") }

    @Test func anAbsentItemReadsAsTheDefault() throws {
        #expect(try lockbox[.session] == nil)
        #expect(try lockbox[.attempts] == 3)
        #expect(try lockbox[LockboxKey<String?>("name", default: "nobody")] == "nobody")
        #expect(try lockbox.allKeys() == [], "a read stores nothing")
    }

    @Test func whatIsArchivedComesBack() throws {
        try lockbox.archiveObject(Session(token: "t"), forKey: .session)
        try lockbox.archiveObject(7, forKey: .attempts)
        try lockbox.archiveObject(Data([1]), forKey: .blob)
        #expect(try lockbox[.session] == Session(token: "t"))
        #expect(try lockbox[.attempts] == 7)
        #expect(try lockbox[.blob] == Data([1]))
        // The untyped verbs read the same.
        #expect(try lockbox.unarchiveObject(Session.self, forKey: "session") == Session(token: "t"))
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "blob") == Data([1]))
    }

    @Test func nilRemoves() throws {
        try lockbox.archiveObject(Session(token: "t"), forKey: .session)
        try lockbox.archiveObject(nil, forKey: .session)
        try lockbox.archiveObject(7, forKey: .attempts)
        try lockbox.removeObject(forKey: .attempts)
        #expect(try lockbox.allKeys() == [])
        let name = LockboxKey<String?>("name", default: "nobody")
        try lockbox.archiveObject("alice", forKey: name)
        try lockbox.update(name) { $0 = nil }
        #expect(try lockbox.allKeys() == [] && lockbox[name] == "nobody")
    }

    @Test func aWriteStatesWhatTheKeyStatesAndNothingElse() throws {
        try lockbox.archiveObject(Session(token: "t"), forKey: .session)
        let new = try #require(try lockbox.attributes(forKey: "session"))
        #expect(new.accessibility == .afterFirstUnlock && new.label == "Session")
        #expect(new.expires == new.modified + 86_400)
        try lockbox.setAttributes(forKey: "session", comment: "kept", attributes: ["a": "b"])
        try lockbox.archiveObject(Session(token: "u"), forKey: .session, expires: .never)
        let changed = try #require(try lockbox.attributes(forKey: "session"))
        #expect(changed.comment == "kept" && changed.searchable == ["a": "b"] && changed.expires == nil)

        try lockbox.archiveObject(
            1,
            forKey: "attempts",
            accessibility: .always,
            expires: .after(9),
            label: "l"
        )
        try lockbox.update(.attempts) { $0 += 1 }
        let attributes = try #require(try lockbox.attributes(forKey: "attempts"))
        #expect(attributes.accessibility == .always && attributes.label == "l")
        #expect(attributes.expires != nil, "an update keeps it")
    }

    @Test func updatesBeginWithTheDefault() throws {
        #expect(try lockbox.update(.attempts) { $0 += 1 } == 4)
        #expect(try lockbox.update(.attempts) { $0 += 1 } == 5)
        #expect(throws: CancellationError.self) {
            try lockbox.update(.attempts) {
                $0 = 0
                throw CancellationError()
            }
        }
        #expect(try lockbox[.attempts] == 5)
    }

    @Test func policiesAndBatches() throws {
        try lockbox.archiveObject(1, forKey: .attempts, policy: .addOnly)
        expectError(.duplicateItem) {
            try lockbox.archiveObject(2, forKey: .attempts, policy: .addOnly)
        }
        try lockbox.batch {
            try $0.archiveObject(Session(token: "t"), forKey: .session)
            try $0.archiveObject(nil, forKey: .blob)
            try $0.removeObject(forKey: .attempts)
        }
        #expect(try lockbox.allKeys() == ["session"])
        #expect(try lockbox.attributes(forKey: "session")?.label == "Session")
    }

    /// A locked or damaged item is not the default, for the subscript or the property.
    @Test func noErrorIsSwallowed() throws {
        let failing = FailingBackend(InMemoryBackend())
        let lockbox = try failing.lockbox("p")
        let property = LockboxItem(.attempts, in: lockbox)
        try property.set(1)
        failing.fail(.read, with: LockboxError.interactionNotAllowed(.whenUnlocked))
        expectError(.interactionNotAllowed) { try lockbox[.attempts] }
        expectError(.interactionNotAllowed) { try property.wrappedValue.get() }
        let other = try InMemoryBackend().lockbox("p")
        try other.archiveObject("text", forKey: "attempts")
        expectError(.decodingFailed) { try other[.attempts] }
        expectError(.decodingFailed) { try other.update(.attempts) { $0 += 1 } }
        #expect(try other.unarchiveObject(forKey: "attempts") == "text")
    }

    private struct Settings {
        @LockboxItem var attempts: Result<Int, any Error>
        @LockboxItem var session: Result<Session?, any Error>

        init(_ lockbox: @autoclosure @escaping @Sendable () throws -> Lockbox) {
            _attempts = LockboxItem(.attempts, in: try lockbox())
            _session = LockboxItem(.session, in: try lockbox())
        }
    }

    @Test func propertiesReadAndWriteTheItem() throws {
        let settings = Settings(lockbox)
        #expect(try settings.attempts.get() == 3 && settings.session.get() == nil)
        try settings.$attempts.set(8)
        #expect(try settings.$attempts.update { $0 += 1 } == 9)
        #expect(try settings.attempts.get() == 9 && lockbox[.attempts] == 9)
        try settings.$attempts.remove()
        #expect(try settings.attempts.get() == 3)
    }

    @Test func propertiesHaveAsyncForms() async throws {
        let settings = Settings(lockbox)
        #expect(try await settings.$attempts.value() == 3)
        try await settings.$attempts.set(8)
        #expect(try await settings.$attempts.update { $0 += 1 } == 9)
        #expect(try await settings.$attempts.value() == 9)
        try await settings.$attempts.remove()
        #expect(try await lockbox.allKeys() == [])
    }

    @Test func aPropertyGivesTheErrorOfItsLockbox() throws {
        let settings = Settings(try InMemoryBackend().lockbox(""))
        expectError(.invalidKey) { try settings.attempts.get() }
        expectError(.invalidKey) { try settings.$attempts.value() }
        expectError(.invalidKey) { try settings.$attempts.set(1) }
    }

    @Test func asyncForms() async throws {
        try await lockbox.archiveObject(Session(token: "t"), forKey: .session)
        #expect(try await lockbox.unarchiveObject(forKey: .session) == Session(token: "t"))
        #expect(try await lockbox.update(.attempts) { $0 += 1 } == 4)
        try await lockbox.removeObject(forKey: .attempts)
        #expect(try await lockbox.unarchiveObject(forKey: .attempts) == 3)
    }
}

@Suite struct InternetPasswordTests {
    @Test func theAttributesAreThePrimaryKey() throws {
        let full = InternetPassword(
            server: "example.com",
            account: "alice@home",
            protocol: "https",
            port: 8443,
            path: "a b/c?d",
            securityDomain: "realm",
            authenticationType: "form"
        )
        #expect(full.searchable.count == 7 && full.searchable["port"] == "8443")
        #expect(
            full.key.name
                == "https://alice%40home@example.com:8443/a%20b/c%3Fd?securityDomain=realm&authenticationType=form"
        )
        let lockbox = try InMemoryBackend().lockbox(InternetPassword.sharedPrefix)
        let small = InternetPassword(server: "", account: "", path: "")
        #expect(small.path == nil)
        for password in [full, small] {
            try lockbox.archiveObject(Data("hunter2".utf8), forKey: password.key)
            let attributes = try #require(try lockbox.attributes(forKey: password.key.name))
            #expect(InternetPassword(attributes) == password)
        }
        #expect(try lockbox.list(matching: ["server": "example.com", "port": "8443"]).items.count == 1)
    }

    /// Two that differ in any part, also by what separates the parts, have different keys.
    @Test func differentIdentitiesHaveDifferentKeys() {
        let texts = ["", "a", ":", "@", "/", "a:1", "?", "&", "=", "%", "%3A", "[::1]", "[a:1]", "é"]
        let optional = [nil] + texts.map(Optional.some)
        var seen: [String: InternetPassword] = [:]
        func see(_ password: InternetPassword) {
            #expect(seen.updateValue(password, forKey: password.key.name).map { $0 == password } ?? true)
        }
        for server in texts {
            for account in texts {
                for port in [nil, 1, 11] {
                    for other in optional {
                        see(.init(server: server, account: account, protocol: other, port: port))
                        see(.init(server: server, account: account, port: port, path: other))
                        see(.init(server: server, account: account, port: port, securityDomain: other))
                        see(.init(server: server, account: account, port: port, authenticationType: other))
                    }
                }
            }
        }
        #expect(seen.count == texts.count * texts.count * 3 * (1 + 14 + 13 + 14 + 14))
    }

    @Test func anItemWithoutTheNamesIsNone() throws {
        let lockbox = try InMemoryBackend().lockbox("p")
        try lockbox.archiveObject("v", forKey: "k", attributes: ["server": "example.com"])
        #expect(try lockbox.attributes(forKey: "k").flatMap(InternetPassword.init) == nil)
    }
}
