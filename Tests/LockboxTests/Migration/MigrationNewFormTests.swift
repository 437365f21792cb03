import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Items that a source already has in the new form: they move as they are.
@Suite struct MigrationNewFormTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    private func write(_ key: String, _ prefix: String, _ format: ValueFormat, in backend: any LockboxBackend)
        throws
    {
        let item = try StoredItem(
            key: ItemKey(prefix: prefix, key: key),
            value: ArchivedValue(data: Data("\"value of \(key)\"".utf8), format: format),
            accessibility: .afterFirstUnlockThisDeviceOnly,
            created: date,
            modified: date + 5,
            expires: date + 1e9,
            label: "label of \(key)",
            comment: "comment of \(key)",
            searchable: ["account": key]
        )
        try backend.update(item.key, now: nil) { _ in item }
    }

    private func item(_ key: String, _ prefix: String, in backend: any LockboxBackend) throws -> StoredItem? {
        try backend.item(for: ItemKey(prefix: prefix, key: key), now: nil)
    }

    private static let formats: [(String, ValueFormat)] = [
        ("json", .json), ("data", .data), ("own", ValueFormat(rawValue: 200)),
    ]

    /// Another prefix of the same backend, another backend, and one whose updates run twice.
    @Test(arguments: 0..<3) func valueFormatAndAttributesStay(_ place: Int) throws {
        let other: any LockboxBackend = place == 0 ? lockbox.backend : InMemoryBackend()
        let backend = place == 2 ? ContendedBackend(wrapped: other) : other
        for (key, format) in Self.formats { try write(key, "old", format, in: other) }
        // The types that the migration names do not matter.
        let migration = Migration(
            "m",
            from: .backend(backend, keyPrefix: "old"),
            .string("json"),
            .date("data", to: "new data"),
            .data("own"),
            .string("absent")
        )
        let preview = try lockbox.migrate(migration, dryRun: true)
        let before = try Self.formats.map { try item($0.0, "old", in: other) }
        #expect(before.allSatisfy { $0 != nil })
        let report = try lockbox.migrate(migration)
        #expect(report.outcomes.map(\.outcome) == [.migrated, .migrated, .migrated, .absent])
        #expect(preview.outcomes.map(\.outcome) == report.outcomes.map(\.outcome))
        for (old, key) in zip(before, ["json", "new data", "own"]) {
            let new = try #require(try bytes(key))
            #expect(new.value == old?.value)
            #expect(new.attributes == old?.attributes)
        }
        #expect(try other.attributes(prefix: "old", now: nil).isEmpty)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "json") == "value of json")
        #expect(
            try lockbox.migrate(migration).outcomes.map(\.outcome) == [
                .migratedBefore, .migratedBefore, .migratedBefore, .absent,
            ]
        )
    }

    @Test func aNamedClassReplacesTheOld() throws {
        try write("k", "old", .json, in: lockbox.backend)
        let source = MigrationSource.backend(lockbox.backend, keyPrefix: "old")
        #expect(
            try lockbox.migrate(Migration("m", from: source, .string("k", accessibility: .always))).isComplete
        )
        let attributes = try #require(try lockbox.attributes(forKey: "k"))
        #expect(attributes.accessibility == .always)
        #expect(attributes.modified == date + 5 && attributes.searchable == ["account": "k"])
    }

    /// Whoever has the device key can plant an item of a class that needs no unlock.
    @Test(arguments: [(ValueFormat.lockbox2, "k"), (.lockbox2, "new"), (.json, "new")])
    func nobodyHasChosenAClassThatWasNotProven(_ format: ValueFormat, _ destination: String) throws {
        let value = try ArchivedValue(data: Data("\"planted\"".utf8), format: format)
        let item = try StoredItem(
            key: lockbox.itemKey("k"),
            value: value,
            accessibility: .always,
            modified: date
        )
        try lockbox.backend.update(item.key, now: nil) { _ in item }
        // Nothing from before the first slot is proven.
        let backend = try store.backend().setUp()
        let owner = try backend.lockbox()
        expectError(.invalidAttribute, "the control") { try owner.archiveObject("next", forKey: "k") }
        #expect(try owner.migrate(Migration("m", .string("k", to: destination)))["k"] == .migrated)
        for _ in 0..<2 {
            expectError(.invalidAttribute) { try owner.archiveObject("next", forKey: destination) }
            try backend.rotateKeys()
        }
        #expect(try owner.attributes(forKey: destination)?.accessibility == .always)
    }

    @Test func aClassThatTheMigrationNamesIsChosen() throws {
        try write("t".utf8, "k", .always)
        let owner = try store.backend().setUp().lockbox()
        try owner.migrate(Migration("m", .string("k", accessibility: .always)))
        try owner.archiveObject("next", forKey: "k")
        #expect(try owner.attributes(forKey: "k")?.accessibility == .always)
    }

    @Test func aConvertedItemKeepsItsSearchableAttributes() throws {
        try write("k", "old", .lockbox2, in: lockbox.backend)
        let source = MigrationSource.backend(lockbox.backend, keyPrefix: "old")
        #expect(try lockbox.migrate(Migration("m", from: source, .string("k"))).isComplete)
        #expect(try lockbox.attributes(forKey: "k")?.searchable == ["account": "k"])
    }

    @Test func oldItemsCanBeKept() throws {
        try write("k", "old", .json, in: lockbox.backend)
        let source = MigrationSource.backend(lockbox.backend, keyPrefix: "old")
        let migration = Migration("m", from: source, .string("k"), keepsOldItems: true)
        #expect(try lockbox.migrate(migration)["k"] == .migrated)
        #expect(try item("k", "old", in: lockbox.backend) != nil)
        #expect(try bytes("k")?.attributes == item("k", "old", in: lockbox.backend)?.attributes)
    }

    /// Also under the same prefix and key in another store, which a dry run cannot tell from this one.
    @Test func withoutANameADryRunSaysWhatTheRunDoes() throws {
        let other = InMemoryBackend()
        try other.lockbox(lockbox.keyPrefix).archiveObject("v", forKey: "k")
        let source = MigrationSource.backend(other, keyPrefix: lockbox.keyPrefix)
        let migration = Migration(nil, from: source, .string("k"), keepsOldItems: true)
        for outcome in [MigrationReport.Outcome.migrated, .alreadyMigrated, .alreadyMigrated] {
            #expect(try lockbox.migrate(migration, dryRun: true)["k"] == outcome)
            #expect(try lockbox.migrate(migration)["k"] == outcome)
        }
    }

    @Test func whatIsThereIsNotOverwritten() throws {
        try write("k", "old", .json, in: lockbox.backend)
        try lockbox.archiveObject("mine", forKey: "k")
        let source = MigrationSource.backend(lockbox.backend, keyPrefix: "old")
        for _ in 0..<2 {
            let report = try lockbox.migrate(Migration("m", from: source, .string("k")))
            #expect(report["k"] == .refused(.destinationExists) && !report.isComplete)
        }
        #expect(try lockbox.unarchiveObject(String.self, forKey: "k") == "mine")
        #expect(try item("k", "old", in: lockbox.backend) != nil)
        // An item that has expired counts as absent, also if it had not when the old one was written.
        let taken = try StoredItem(
            key: lockbox.itemKey("k"),
            value: ArchivedValue(data: Data("1".utf8), format: .json),
            modified: date,
            expires: date + 10
        )
        try lockbox.backend.update(taken.key, now: nil) { _ in taken }
        let later = date + 20
        let clocked = try lockbox.backend.lockbox { later }
        #expect(try clocked.migrate(Migration("m", from: source, .string("k")))["k"] == .migrated)
        #expect(try bytes("k")?.value.data == Data("\"value of k\"".utf8))
    }

    @Test func whatChangesMeanwhileStays() throws {
        let old = InMemoryBackend()
        for key in ["a", "b"] { try write(key, "old", .json, in: old) }
        let migration = Migration(nil, from: .backend(old, keyPrefix: "old"), .string("a"), .string("b"))
        let report = try lockbox.migrate(migration) { progress in
            if progress.completed == 1 {
                #expect(throws: Never.self) { try write("b", "old", .data, in: old) }
            }
        }
        #expect(report.outcomes.map(\.outcome) == [.migrated, .refused(.changed)] && !report.isComplete)
        #expect(try item("b", "old", in: old)?.value.format == .data)
        #expect(try item("a", "old", in: old) == nil)
    }

    /// Then the old item must not go.
    @Test func aBackendThatStoresNothingIsNoticed() throws {
        let old = InMemoryBackend()
        try write("k", "old", .json, in: old)
        let forgetful = try HookedBackend(forgetsUpdates: true).lockbox("new")
        let migration = Migration(nil, from: .backend(old, keyPrefix: "old"), .string("k"))
        #expect(try forgetful.migrate(migration)["k"] == .refused(.changed))
        #expect(try item("k", "old", in: old) != nil)
    }

    // MARK: The same key

    /// An interrupted run leaves equal items in both stores. The same store, opened twice, has equal items, too.
    @Test(arguments: [true, false], ["m", nil]) func ofEqualItemsOneGoesUnlessTheyAreTheSame(
        _ isSame: Bool,
        _ name: String?
    ) throws {
        let prefix = TestStore.prefix
        let backend: any LockboxBackend = isSame ? store.backend() : InMemoryBackend()
        for backend in [lockbox.backend, backend] {
            try write("new", prefix, .json, in: backend)
            try write("old", prefix, .lockbox2, in: backend)
        }
        let migration = Migration(name, from: .backend(backend), .string("new"), .string("old"))
        let report = try lockbox.migrate(migration)
        #expect(report["new"] == (isSame ? .alreadyMigrated : .migrated))
        #expect(report["old"] == .migrated && report.isComplete)
        #expect(try bytes("new")?.attributes.label == "label of new")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "old") == "\"value of old\"")
        #expect(try item("new", prefix, in: backend) == (isSame ? bytes("new") : nil))
        #expect(try item("old", prefix, in: backend) == (isSame ? bytes("old") : nil))
        // Nothing remains of the test whether they are the same.
        #expect(try lockbox.backend.attributes(prefix: ItemKey.probePrefix, now: nil).isEmpty)
    }

    @Test func inTheStoreItIsInPlaceAndMovesOnlyToAnotherKey() throws {
        for key in ["a", "b"] { try write(key, TestStore.prefix, .json, in: lockbox.backend) }
        try write("c", TestStore.prefix, .lockbox2, in: lockbox.backend)
        let before = try #require(try bytes("b"))
        let report = try lockbox.migrate(Migration("m", .string("a"), .string("b", to: "new"), .string("c")))
        #expect(
            report.outcomes.map(\.outcome) == [.alreadyMigrated, .migrated, .migrated] && report.isComplete
        )
        #expect(try lockbox.allKeys() == ["a", "c", "new"])
        #expect(try bytes("new")?.attributes == before.attributes)
    }

    @Test func keysOfASource() throws {
        try write("a", TestStore.prefix, .json, in: lockbox.backend)
        try write("b", TestStore.prefix, .lockbox2, in: lockbox.backend)
        #expect(try MigrationSource.store.keys(for: lockbox) == ["b"])
        #expect(try MigrationSource.backend(lockbox.backend).keys(for: lockbox) == ["a", "b"])
    }

    // MARK: Old keys that no item can have

    @Test(arguments: ["", String(repeating: "k", count: 5000)])
    func invalidOldKeysAreRefusedBeforeAnythingIsRead(_ key: String) throws {
        let backend = CountingBackend()
        let lockbox = try backend.lockbox("p")
        for (source, key) in [
            (.store, key), (.backend(backend), key), (.backend(backend, keyPrefix: "q"), key),
            (.backend(backend, keyPrefix: key), "k"), (.backend(backend, keyPrefix: "\0reserved"), "k"),
        ] as [(MigrationSource, String)] {
            for name in ["m", nil] {
                let migration = Migration(name, from: source, .string("fine"), .string(key, to: "c"))
                expectError(.invalidKey) { try lockbox.migrate(migration) }
                expectError(.invalidKey) { try lockbox.migrate(migration, dryRun: true) }
            }
        }
        #expect(backend.calls == 0)
        // Entries of files and dictionaries may have any name.
        let source = MigrationSource.items([key: Data("v".utf8)])
        #expect(try lockbox.migrate(Migration("m", from: source, .string(key, to: "c"))).isComplete)
        #expect(backend.calls > 0)
    }
}
