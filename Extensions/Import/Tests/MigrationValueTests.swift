import Foundation
import Testing

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Values that count as the same, and that nothing of one is lost.
@Suite struct MigrationValueTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    /// Dictionaries and sets have no order: the same value may have other bytes.
    @Test func aNewItemOfTheSameValueIsOneOfAnInterruptedRun() throws {
        let dictionary = Dictionary(uniqueKeysWithValues: (0..<50).map { ("k\($0)", "v\($0)") })
        try write(Lockbox2Text.text(dictionary).utf8, "a")
        let json = dictionary.keys.sorted(by: >).map { "\"\($0)\":\"\(dictionary[$0]!)\"" }
        let value = try ArchivedValue(data: Data("{\(json.joined(separator: ", "))}".utf8), format: .json)
        try lockbox.backend.write(
            StoredItem(key: lockbox.itemKey("b"), value: value, modified: date),
            policy: .replace
        )
        #expect(try lockbox.migrate(Migration("m", .dictionary("a", to: "b")))["a"] == .migrated)
        #expect(try bytes("a") == nil)
        #expect(try bytes("b")?.value == value)
    }

    /// Not a number does not equal itself, and texts equal others of the same characters.
    @Test func whatIsUnchangedIsSoBitForBit() throws {
        let path = try file(
            "a.plist",
            "<plist><dict><key>A</key><array><real>nan</real><real>1.5</real></array></dict></plist>".utf8
        )
        let numbers = Migration("m", from: .propertyList(at: path), .value("A", as: [Double].self))
        #expect(try lockbox.migrate(numbers)["A"] == .migrated)
        #expect(try !text(path).contains("nan"))

        // One with a sign, as processors make it.
        let archived = ["key": Data(PropertyListWriter.archive([.real(-Double.nan)]))]
        let number = Migration("n", from: .items(archived), .archive("key", as: Double.self))
        #expect(try lockbox.migrate(number)["key"] == .migrated)

        let settings = try file("app.env", "A=caf\u{E9}\n".utf8)
        let source = try FileItems(path: settings, format: .environment(.common))
        let a = try #require(try source.item(forKey: "A"))
        try Data("A=cafe\u{301}\n".utf8).write(to: URL(fileURLWithPath: settings))
        #expect(try source.remove(["A": a]) == ["A"])
    }

    /// It would be gone with the old entry.
    @Test func whatTheTypeDoesNotHaveIsNotLost() throws {
        struct Login: Codable { var machine, login, password: String }
        let reason = "it cannot be read without loss: the type does not decode all of the data"
        let lost = MigrationRefusal.ambiguous(reason: reason)
        let path = try file("netrc", "machine a.example login al password s3cret account billing\n".utf8)
        let migration = Migration(
            "m",
            from: .netrc(at: path),
            .value("al@a.example", as: Login.self, to: "a")
        )
        #expect(
            try lockbox.migrate(migration)["al@a.example"] == .refused(lost)
        )
        #expect(try text(path).contains("billing"))

        let removed = Protected<Set<String>>([])
        let archive = archive(
            ["machine": "a", "login": "b", "password": "c", "pin": "4"] as NSDictionary,
            "k"
        )
        let source = MigrationSource.items(["k": archive]) { keys in removed.withLock { $0 = keys } }
        let report = try lockbox.migrate(Migration("n", from: source, .archive("k", as: Login.self)))
        #expect(report["k"] == .refused(lost))
        #expect(removed.withLock { $0 }.isEmpty)
    }

    /// Equal for the app, but not the same.
    private struct Account: Codable, Equatable {
        var id: Int
        var token: String

        static func == (one: Account, other: Account) -> Bool { one.id == other.id }
    }

    @Test func whatIsEqualOnlyInPartIsAnotherValue() throws {
        let path = try file("config.json", #"{"account":{"id":1,"token":"s3cret"}}"#.utf8)
        try lockbox.archiveObject(Account(id: 1, token: "another"), forKey: "account")
        let migration = Migration("m", from: .json(at: path), .value("account", as: Account.self))
        #expect(try lockbox.migrate(migration)["account"] == .refused(.destinationExists))
        #expect(try text(path).contains("s3cret"))
    }

    private struct Group: Codable, Sendable {
        var name: String
        var members: Set<String>
        var quotas: [Role: Int]
        var steps: [String]

        enum Role: String, Codable { case owner, guest, reader, writer }
    }

    private func group(_ members: [String], steps: [String] = ["x", "y"]) throws -> Data {
        try JSONEncoder().encode(
            Group(
                name: "staff",
                members: Set(members),
                quotas: [.owner: 1, .guest: 2, .reader: 3, .writer: 4],
                steps: steps
            )
        )
    }

    /// A set may read back in another order, also inside a type that cannot be compared.
    @Test(arguments: [1, 2, 8, 40, 200]) func aSetInsideATypeThatIsNotEquatable(_ count: Int) throws {
        let members = (0..<count).map { "member \($0)" }
        let source = try MigrationSource.items(["k": group(members)])
        #expect(
            try lockbox.migrate(Migration("m", from: source, .json("k", as: Group.self)))["k"] == .migrated
        )
        // An interrupted run of another process may have left it like this.
        let json = try #require(
            try JSONSerialization.jsonObject(with: group(members)) as? [String: Any]
        )
        for other in [members, members.reversed(), members.shuffled()] {
            let bytes = try JSONSerialization.data(withJSONObject: json.merging(["members": other]) { $1 })
            let value = try ArchivedValue(data: bytes, format: .json)
            let item = try StoredItem(key: lockbox.itemKey("k"), value: value, modified: date)
            try lockbox.backend.write(item, policy: .replace)
            let report = try lockbox.migrate(Migration(nil, from: source, .json("k", as: Group.self)))
            #expect(report["k"] == .migrated)
        }
    }

    @Test func anotherOrderOfAListIsAnotherValue() throws {
        let old = try group(["a", "b"], steps: ["x", "y"])
        let value = try ArchivedValue(data: group(["a", "b"], steps: ["y", "x"]), format: .json)
        let item = try StoredItem(key: lockbox.itemKey("k"), value: value, modified: date)
        try lockbox.backend.write(item, policy: .replace)
        let migration = Migration("m", from: .items(["k": old]), .json("k", as: Group.self))
        #expect(try lockbox.migrate(migration)["k"] == .refused(.destinationExists))
        // A list inside a dictionary's value does not go by another's order either.
        let lists = Migration(
            "n",
            from: .items(["l": Data(#"{"k":[1,2]}"#.utf8)]),
            .json("l", as: Lists.self)
        )
        try lockbox.archiveObject(Lists(map: ["k": [2, 1]]), forKey: "l")
        #expect(try lockbox.migrate(lists)["l"] == .refused(.destinationExists))
    }

    private struct Lists: Codable, Sendable {
        var map: [String: [Int]]

        init(map: [String: [Int]]) { self.map = map }
        init(from decoder: any Decoder) throws { map = try [String: [Int]](from: decoder) }
        func encode(to encoder: any Encoder) throws { try map.encode(to: encoder) }
    }
}
