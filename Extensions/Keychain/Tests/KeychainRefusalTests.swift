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
            ("desc", .text("kind"), "kSecAttrDescription"), ("gena", .data(Data([1])), "kSecAttrGeneric"),
            ("crtr", .int(7), "kSecAttrCreator"), ("type", .int(7), "kSecAttrType"),
            ("invi", .bool(true), "kSecAttrIsInvisible"), ("nega", .bool(true), "kSecAttrIsNegative"),
        ] as [(String, KeychainValue, String)]
    )
    func whatHasNoPlaceStays(_ attribute: String, _ value: KeychainValue, _ name: String) throws {
        add("a", "v", [attribute: value])
        add("b", "v", ["desc": .text(""), "invi": .bool(false), "type": .int(0)])
        let migration = Migration(
            "m",
            from: .keychain(service: "com.example.app", calls: keychain),
            .string("a"),
            .string("b")
        )
        let report = try lockbox.migrate(migration)
        #expect(report.refused.keys.sorted() == ["a"])
        #expect(report.refused["a"]?.description.contains(name) == true)
        #expect(count == 1)
        #expect(try lockbox.allKeys() == ["b"])
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
