@testable import LockboxKeychainTesting
import Foundation
import LockboxKeychain
import LockboxKeychainMigration
import LockboxTesting
import Testing

@testable import Lockbox
@testable import LockboxCore

/// A migration from or into the Keychain names these items, and does not lose them.
@Suite struct KeychainRefusalTests {
    private typealias Attributes = KeychainCalls.Attributes

    private let keychain = KeychainSimulator()
    private let lockbox: Lockbox

    init() throws { lockbox = try InMemoryBackend().lockbox("com.example.app") }

    private func add(_ key: String, _ text: String, _ more: Attributes = [:]) {
        let attributes: Attributes = [
            "class": .text("genp"), "svce": .text("com.example.app"), "acct": .text(key),
            "v_Data": .data(Data(text.utf8)),
        ]
        #expect(keychain.add(attributes.merging(more) { $1 }) == 0)
    }

    private var count: Int {
        keychain.copyMatching([
            "class": .text("genp"), "sync": .text("syna"), "m_Limit": .text("m_LimitAll"),
            "r_Attributes": .bool(true),
        ]).items.filter { $0["svce"] == .text("com.example.app") || $0["svce"] == .text("new") }.count
    }

    @Test func anotherProgramsItemInTheWayIsRefusedAlone() throws {
        for key in ["a", "b"] { add(key, "v") }
        #expect(
            keychain.add([
                "class": .text("genp"), "nleg": .bool(true), "svce": .text("new"), "acct": .text("a"),
            ]) == 0
        )
        let new = try Lockbox(keyPrefix: "new", backend: KeychainBackend(keychain))
        let migration = Migration(
            "m",
            from: .keychain(service: "com.example.app", calls: keychain),
            .string("a"),
            .string("b")
        )
        let failing = try Lockbox(keyPrefix: "new", backend: FailingBackend(new.backend))
        #expect(try failing.migrate(migration, dryRun: true).refused.keys.sorted() == ["a"])
        for isDry in [true, false, false] {
            let report = try new.migrate(migration, dryRun: isDry)
            #expect(report.refused.keys.sorted() == ["a"])
            #expect(report.refused["a"]?.description.contains("another program's item") == true)
        }
        #expect(try new.unarchiveObject(forKey: "b") == "v")
        #expect(count == 3, "the foreign item, the old item a, and the new item b")
    }

    @Test(
        arguments: [
            ("desc", .text("kind"), "kSecAttrDescription", "kind"),
            ("gena", .data(Data("id".utf8)), "kSecAttrGeneric", "id"),
            ("gena", .data(Data([0xFF])), "kSecAttrGeneric base64", "/w=="),
            ("crtr", .int(7), "kSecAttrCreator", "7"), ("type", .int(7), "kSecAttrType", "7"),
            ("invi", .bool(true), "kSecAttrIsInvisible", "1"),
            ("nega", .bool(true), "kSecAttrIsNegative", "1"),
        ] as [(String, KeychainValue, String, String)]
    )
    func whatHasNoPlaceBecomesSearchable(
        _ attribute: String,
        _ value: KeychainValue,
        _ name: String,
        _ text: String
    ) throws {
        add("a", "v", [attribute: value])
        add("b", "v", ["desc": .text(""), "invi": .bool(false), "type": .int(0)])
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        let report = try lockbox.migrate(Migration("m", from: source, .string("a"), .string("b")))
        #expect(report.isComplete && count == 0)
        #expect(try lockbox.attributes(forKey: "a")?.searchable == [name: text])
        #expect(try lockbox.attributes(forKey: "b")?.searchable == [:])
    }

    @Test func whatIsTooLongForThatStays() throws {
        add("a", "v", ["gena": .data(Data(repeating: 7, count: 4097))])
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        let report = try lockbox.migrate(Migration("m", from: source, .string("a")))
        #expect(report.refused["a"]?.description.contains("the limit is 4096") == true && count == 1)
    }

    /// Apple's KeychainItemWrapper.m, `initWithIdentifier:accessGroup:` and `resetKeychainItem`: the identifier is in
    /// kSecAttrGeneric, and there is no service. SwiftKeychainWrapper's `setupKeychainQueryDictionary(forKey:…)` has the key as
    /// bytes in both.
    @Test func itemsOfWrappersThatAlwaysSetGeneric() throws {
        let item: Attributes = [
            "class": .text("genp"), "gena": .text("Password"), "acct": .text("alice"), "labl": .text(""),
            "desc": .text(""), "v_Data": .data(Data("hunter2".utf8)),
        ]
        #expect(keychain.add(item) == 0)
        add("", "s3cret", ["gena": .data(Data("token".utf8)), "acct": .data(Data("token".utf8))])
        let wrapper = MigrationSource.keychain(service: "", calls: keychain)
        #expect(try wrapper.keys(for: lockbox) == ["alice"])
        #expect(try lockbox.migrate(Migration("1", from: wrapper, .string("alice"))).isComplete)
        #expect(try lockbox.list(matching: ["kSecAttrGeneric": "Password"]).items.keys.sorted() == ["alice"])
        let swift = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        #expect(try lockbox.migrate(Migration("2", from: swift, .string("token"))).isComplete)
        #expect(try lockbox.unarchiveObject(forKey: "token") == "s3cret")
        #expect(
            keychain.copyMatching(["class": .text("genp"), "r_Attributes": .bool(true)]).status == -25300
        )
    }

    /// Lockbox's internet passwords have places for both.
    @Test func thePathAndTheRealmOfAnInternetPasswordStay() throws {
        let item: Attributes = [
            "class": .text("inet"), "srvr": .text("example.com"), "acct": .text("alice"),
            "path": .text("repo"),
            "sdmn": .text("realm"), "v_Data": .data(Data("hunter2".utf8)),
        ]
        #expect(keychain.add(item) == 0)
        let source = MigrationSource.keychain(server: "example.com", calls: keychain)
        #expect(try lockbox.migrate(Migration("m", from: source, .string("alice"))).isComplete)
        let password = try lockbox.attributes(forKey: "alice").flatMap(InternetPassword.init)
        #expect(password?.path == "repo" && password?.securityDomain == "realm")
    }

    @Test func accountsThatAreNoTextAreNamed() throws {
        add("a", "v")
        add("b", "v", ["acct": .data(Data([0xFF]))])
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        var unreadable = 0
        #expect(try source.keys(for: lockbox) { _ in unreadable += 1 } == ["a"])
        #expect(unreadable == 1)
        expectError(.corrupt) { try source.keys(for: lockbox) }
        #expect(
            keychain.add([
                "class": .text("genp"), "svce": .text("com.example.app.k"), "v_Data": .data(Data()),
            ]) == 0
        )
        let bytes: Attributes = [
            "class": .text("genp"), "svce": .data(Data("com.example.app.".utf8) + [0xFF]),
            "v_Data": .data(Data()),
        ]
        #expect(keychain.add(bytes) == 0)
        #expect(keychain.add(bytes.merging(["svce": .data(Data([0xFF]))]) { $1 }) == 0)
        unreadable = 0
        #expect(
            try MigrationSource.lockboxKeychain(calls: keychain).keys(for: lockbox) { _ in unreadable += 1 }
                == ["k"]
        )
        #expect(unreadable == 1, "one is of another program")
    }
}
