import Foundation
import Testing

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) import LockboxImport
@testable import LockboxStore
@_spi(Extensions) @testable import LockboxUserDefaults

/// `UserDefaults` as a source of migrations.
@Suite struct UserDefaultsSourceTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    @Test func userDefaults() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        defaults.set("s3cret", forKey: "password")
        defaults.set(42, forKey: "answer")
        defaults.set(true, forKey: "on")
        defaults.set(1.5, forKey: "ratio")
        defaults.set(["a", "b"], forKey: "list")
        defaults.set(["k": "v"], forKey: "map")
        defaults.set(Data([1]), forKey: "data")
        // Foundation's own file keeps whole seconds, and no sign of a zero.
        let second = Date(timeIntervalSinceReferenceDate: 801_234_567)
        defaults.set(second, forKey: "date")
        defaults.set(archive("r" as NSString, "root"), forKey: "archive")
        defaults.set("stays", forKey: "other")
        let migration = Migration(
            "m",
            from: .userDefaults(suiteName: suite),
            .string("password"),
            .value("answer", as: Int.self),
            .value("on", as: Bool.self),
            .value("ratio", as: Double.self),
            .array("list"),
            .dictionary("map"),
            .data("data"),
            .date("date"),
            .archive("archive", as: String.self, topKey: "root"),
            .value("none", as: Int.self)
        )
        let report = try lockbox.migrate(migration)
        #expect(report.isComplete, "\(report)")
        #expect(report["none"] == .absent)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "password") == "s3cret")
        #expect(try lockbox.unarchiveObject(Int.self, forKey: "answer") == 42)
        #expect(try lockbox.unarchiveObject(Bool.self, forKey: "on") == true)
        #expect(try lockbox.unarchiveObject(Double.self, forKey: "ratio") == 1.5)
        #expect(try lockbox.unarchiveObject([String].self, forKey: "list") == ["a", "b"])
        #expect(try lockbox.unarchiveObject([String: String].self, forKey: "map") == ["k": "v"])
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "data") == Data([1]))
        #expect(try lockbox.unarchiveObject(Date.self, forKey: "date") == second)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "archive") == "r")
        let left = try #require(UserDefaults(suiteName: suite))
        #expect(left.object(forKey: "password") == nil && left.string(forKey: "other") == "stays")
    }

    @Test func aNumberKeepsTheSignOfAZero() throws {
        let value = try PropertyValue(object: NSNumber(value: -0.0), depth: 0)
        #expect(try value.decoded(as: Double.self).sign == .minus)
        #expect(
            try PropertyValue(object: NSNumber(value: 0.0), depth: 0).decoded(as: Double.self).sign == .plus
        )
    }

    /// It says what a setting is while there is none, and could not be removed.
    @Test func aRegisteredDefaultIsAbsent() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        let keys = ["\(suite) registered", "\(suite) stored"]
        defer {
            defaults.removePersistentDomain(forName: suite)
            UserDefaults.standard.removeObject(forKey: keys[1])
        }
        for (defaults, name) in [(UserDefaults.standard, nil), (defaults, suite)] {
            defaults.register(defaults: [keys[0]: "none", keys[1]: "none"])
            defaults.set("s3cret", forKey: keys[1])
            let source = MigrationSource.userDefaults(suiteName: name)
            let migration = Migration(nil, from: source, items: keys.map { .string($0) })
            let report = try lockbox.migrate(migration)
            #expect(report[keys[0]] == .absent)
            #expect(report[keys[1]] == .migrated)
            #expect(defaults.string(forKey: keys[0]) == "none")
            #expect(defaults.string(forKey: keys[1]) == "none")
            #expect(try !source.keys(for: lockbox).contains(keys[0]))
            #expect(try lockbox.unarchiveObject(String.self, forKey: keys[1]) == "s3cret")
            try lockbox.removeAllObjects()
        }
    }

    /// Each reading of a dictionary may have another order.
    @Test func aDictionaryInUserDefaultsIsRemoved() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        let map = Dictionary(uniqueKeysWithValues: (0..<100).map { ("k\($0)", "v\($0)") })
        defaults.set(map, forKey: "map")
        let migration = Migration("m", from: .userDefaults(suiteName: suite), .dictionary("map"))
        #expect(try lockbox.migrate(migration)["map"] == .migrated)
        #expect(defaults.object(forKey: "map") == nil)
        #expect(try lockbox.unarchiveObject([String: String].self, forKey: "map") == map)
    }

    @Test func anEntryThatCannotBeReadAnyMoreIsNotRemoved() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        defaults.set("old", forKey: "k")
        let items = try DefaultsItems(suiteName: suite)
        let item = try #require(try items.item(forKey: "k"))
        let newer = (0...PropertyValue.maximumDepth).reduce("newer" as Any) { value, _ in [value] }
        defaults.set(newer, forKey: "k")
        #expect(throws: MigrationRefusal.malformed(reason: "its values are nested too deeply")) {
            try items.item(forKey: "k")
        }
        #expect(try items.remove(["k": item]) == ["k"])
        #expect(defaults.object(forKey: "k") != nil)
    }
}
