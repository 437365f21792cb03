import Foundation
import Lockbox
import LockboxTesting
import Testing

private struct Session: Codable, Equatable, Sendable { var token: String }

extension LockboxKey<Session?> {
    fileprivate static var session: Self {
        Self(
            "session",
            options: WriteOptions(accessibility: .afterFirstUnlock, expires: .after(86_400), label: "Session")
        )
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
        try lockbox.setAttributes(WriteOptions(comment: "kept", attributes: ["a": "b"]), forKey: "session")
        try lockbox.archiveObject(
            Session(token: "u"),
            forKey: .session,
            options: WriteOptions(expires: .never)
        )
        let changed = try #require(try lockbox.attributes(forKey: "session"))
        #expect(changed.comment == "kept" && changed.searchable == ["a": "b"] && changed.expires == nil)

        try lockbox.archiveObject(
            1,
            forKey: "attempts",
            options: WriteOptions(accessibility: .always, expires: .after(9), label: "l")
        )
        try lockbox.update(.attempts) { $0 += 1 }
        let attributes = try #require(try lockbox.attributes(forKey: "attempts"))
        #expect(attributes.accessibility == .always && attributes.label == "l")
        #expect(attributes.expires != nil, "an update keeps it")
    }

    @Test func whatTheCallSaysComesBeforeWhatTheKeySays() throws {
        let declared = WriteOptions(accessibility: .always, label: "L", comment: "C", policy: .addOnly)
        let key = LockboxKey<Int>("k", default: 0, options: declared)
        try lockbox.archiveObject(
            1,
            forKey: key,
            options: WriteOptions(expires: .at(.distantFuture), label: "M")
        )
        let attributes = try #require(try lockbox.attributes(forKey: key))
        #expect(attributes.accessibility == .always && attributes.expires == .distantFuture)
        #expect(attributes.label == "M" && attributes.comment == "C")
        expectError(.duplicateItem) { try lockbox.archiveObject(2, forKey: key) }
        try lockbox.archiveObject(3, forKey: key, options: WriteOptions(policy: .updateOnly))
        #expect(try lockbox[key] == 3)
    }

    @Test func otherVerbsTakeTypedKeys() throws {
        try lockbox.archiveObject(7, forKey: .attempts)
        #expect(try lockbox.containsObject(forKey: .attempts))
        try lockbox.setAttributes(WriteOptions(label: "new"), forKey: .attempts)
        #expect(try lockbox.attributes(forKey: .attempts)?.label == "new")
        let other = LockboxKey<Int>("other", default: 0)
        try lockbox.moveObject(forKey: .attempts, toKey: other)
        #expect(try lockbox[other] == 7 && !lockbox.containsObject(forKey: .attempts))
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
        try lockbox.archiveObject(1, forKey: .attempts, options: WriteOptions(policy: .addOnly))
        expectError(.duplicateItem) {
            try lockbox.archiveObject(2, forKey: .attempts, options: WriteOptions(policy: .addOnly))
        }
        try lockbox.batch {
            try $0.archiveObject(Session(token: "t"), forKey: .session)
            try $0.archiveObject(nil, forKey: .blob)
            try $0.removeObject(forKey: .attempts)
        }
        #expect(try lockbox.allKeys() == ["session"])
        #expect(try lockbox.attributes(forKey: "session")?.label == "Session")
    }

    /// A locked or damaged item is not the default.
    @Test func noErrorIsSwallowed() throws {
        let failing = FailingBackend(InMemoryBackend())
        let lockbox = try failing.lockbox("p")
        try lockbox.archiveObject(1, forKey: .attempts)
        failing.fail(.read, with: LockboxError.interactionNotAllowed(.whenUnlocked))
        expectError(.interactionNotAllowed) { try lockbox[.attempts] }
        let other = try InMemoryBackend().lockbox("p")
        try other.archiveObject("text", forKey: "attempts")
        expectError(.decodingFailed) { try other[.attempts] }
        expectError(.decodingFailed) { try other.update(.attempts) { $0 += 1 } }
        #expect(try other.unarchiveObject(forKey: "attempts") == "text")
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
        try lockbox.archiveObject(
            "v",
            forKey: "k",
            options: WriteOptions(attributes: ["server": "example.com"])
        )
        #expect(try lockbox.attributes(forKey: "k").flatMap(InternetPassword.init) == nil)
    }

    @Test(arguments: ["files", "memory"]) func theyAreStoredFoundAndRemoved(_ backend: String) throws {
        let lockbox = try backend == "files" ? TestStore().lockbox() : InMemoryBackend().lockbox("p")
        let alice = InternetPassword(
            server: "example.com",
            account: "alice@home",
            protocol: "https",
            port: 8443,
            path: "größe/a b",
            securityDomain: "realm",
            authenticationType: "form"
        )
        let bob = InternetPassword(server: "example.com", account: "bob", protocol: "https")
        let other = InternetPassword(server: "example.org", account: "alice@home", protocol: "smtp")
        let texts = [(alice, "hunter2"), (bob, "hunter3"), (other, "")]
        for (password, text) in texts {
            try lockbox.archiveObject(
                Data(text.utf8),
                forKey: password.key,
                options: WriteOptions(policy: .addOnly)
            )
        }
        try lockbox.archiveObject("another class", forKey: "other")

        for (password, text) in texts {
            #expect(try lockbox.unarchiveObject(forKey: password.key) == Data(text.utf8))
            let stored = try #require(try lockbox.attributes(forKey: password.key.name))
            #expect(InternetPassword(stored) == password && stored.searchable == password.searchable)
        }
        #expect(try lockbox.attributes(forKey: "other").flatMap(InternetPassword.init) == nil)
        #expect(
            alice.searchable == [
                "server": "example.com", "account": "alice@home", "protocol": "https", "port": "8443",
                "path": "größe/a b", "securityDomain": "realm", "authenticationType": "form",
            ]
        )

        let queries: [([String: String], [InternetPassword])] = [
            (["server": "example.com"], [alice, bob]), (["account": "alice@home"], [alice, other]),
            (["protocol": "https", "account": "bob"], [bob]), (["port": "8443"], [alice]),
            (["path": "größe/a b"], [alice]), (["securityDomain": "realm"], [alice]),
            (["authenticationType": "form"], [alice]), (["server": "example.net"], []),
            (["server": "example.org", "protocol": "https"], []), (other.searchable, [other]),
        ]
        for (query, expected) in queries {
            #expect(
                try Set(lockbox.list(matching: query).items.keys) == Set(expected.map(\.key.name)),
                "\(query)"
            )
        }
        // A new password takes the place of the old one.
        try lockbox.archiveObject(
            Data("hunter4".utf8),
            forKey: alice.key,
            options: WriteOptions(policy: .updateOnly)
        )
        #expect(try lockbox.unarchiveObject(forKey: alice.key) == Data("hunter4".utf8))
        try lockbox.removeObject(forKey: alice.key)
        #expect(try Set(lockbox.list(matching: ["server": "example.com"]).items.keys) == [bob.key.name])
        #expect(try lockbox.allKeys() == [bob.key.name, other.key.name, "other"])
    }

    /// Without its port, it would be the identity of another password.
    @Test(arguments: ["", "http", "080", "+80", "8 0", "99999999999999999999"])
    func aPortThatIsNoNumberIsNoInternetPassword(_ port: String) throws {
        let lockbox = try InMemoryBackend().lockbox("p")
        try lockbox.archiveObject(
            "v",
            forKey: "k",
            options: WriteOptions(attributes: .set(["server": "s", "account": "a", "port": port]))
        )
        let attributes = try #require(try lockbox.attributes(forKey: "k"))
        #expect(InternetPassword(attributes) == nil)
    }
}
