import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Lockbox 2's items become new ones: each type once, what is refused, and what is overwritten.
@Suite struct MigrationTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    @Test func everyTypeOnce() throws {
        try writeAll()
        var progress: [StoreProgress] = []
        let report = try lockbox.migrate(all) { progress.append($0) }
        #expect(report.outcomes.map(\.key) == ["token", "array", "set", "dictionary", "date"])
        #expect(report.outcomes.allSatisfy { $0.outcome == .migrated })
        #expect(report.isComplete)
        #expect(progress.map(\.completed) == [1, 2, 3, 4, 5] && progress.allSatisfy { $0.total == 5 })
        try expectAll()

        let token = try #require(try lockbox.attributes(forKey: "token"))
        #expect(token.accessibility == .afterFirstUnlock)
        #expect(token.created == date)
        #expect(token.expires == date + 1e9)
        #expect(token.label == "label of token")
        #expect(token.comment == "comment of token")

        // Again, by a process that has just started: nothing is done, not even written.
        let before = try store.snapshot()
        let again = try store.lockbox().migrate(all)
        #expect(again.outcomes.allSatisfy { $0.outcome == .migratedBefore })
        #expect(try store.snapshot() == before)
        try expectAll()
    }

    @Test func onAnyBackend() throws {
        let lockbox = try InMemoryBackend().lockbox("com.example.memory")
        try writeAll(in: lockbox)
        #expect(try lockbox.migrate(all).outcomes.allSatisfy { $0.outcome == .migrated })
        try expectAll(in: lockbox)
        #expect(try lockbox.migrate(all).outcomes.allSatisfy { $0.outcome == .migratedBefore })
    }

    @Test func anotherBackend() throws {
        let old = try InMemoryBackend().lockbox("com.example.old")
        try writeAll(in: old)
        try old.archiveObject("new already", forKey: "new")
        let source = MigrationSource.backend(old.backend, keyPrefix: "com.example.old")
        let report = try lockbox.migrate(Migration("m", from: source, items: all.items + [.string("new")]))
        #expect(report["new"] == .migrated, "\(report)")
        #expect(report["token"] == .migrated)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "new") == "new already")
        try expectAll()
        #expect(try lockbox.attributes(forKey: "token")?.label == "label of token")
        #expect(try old.allKeys().isEmpty)
    }

    @Test func updatesThatRunAgainDecideAgain() throws {
        let old = try InMemoryBackend().lockbox("com.example.old")
        try writeAll(in: old)
        let source = ContendedBackend(wrapped: old.backend)
        let new = try ContendedBackend(wrapped: lockbox.backend).lockbox()
        let migration = Migration("m", from: .backend(source, keyPrefix: "com.example.old"), items: all.items)
        let report = try new.migrate(migration)
        #expect(report.isComplete, "\(report)")
        try expectAll()
        #expect(try old.allKeys().isEmpty)

        try writeAll(in: lockbox)
        #expect(try new.migrate(Migration("in place", items: all.items)).isComplete)
        try expectAll()
    }

    @Test(
        arguments: [
            (.array("k"), "a-|-|-b"), (.array("k"), "a-|-\u{301}b"), (.dictionary("k"), "a-|-b-|-c"),
            (.dictionary("k"), ""), (.dictionary("k"), "a-|-a-|-1-|-2"), (.set("k"), "a-|-a"),
            (.date("k"), "soon"),
            (.date("k"), ""), (.date("k"), "nan"),
        ] as [(Migration.Item, String)]
    )
    func whatIsRefusedStaysAsItIs(_ item: Migration.Item, _ text: String) throws {
        try write(text.utf8, "k", .afterFirstUnlock)
        try write("fine".utf8, "other")
        let before = try bytes("k")
        let migration = Migration("refusing", items: [item, .string("other")])
        for run in 1...2 {
            let report = try lockbox.migrate(migration)
            #expect(report.refused.keys.sorted() == ["k"], "run \(run)")
            #expect(!report.isComplete)
            #expect(report["other"] == (run == 1 ? .migrated : .migratedBefore))
            #expect(!report.description.contains("s3cret"))
            #expect(try bytes("k") == before)
        }
        #expect(try lockbox.unarchiveObject(String.self, forKey: "other") == "fine")
    }

    @Test func textThatIsNotUTF8IsRefused() throws {
        try write([0xC3, 0x28], "k")
        let report = try lockbox.migrate(Migration("m", .string("k"), .data("absent")))
        #expect(report["k"] == .refused(.malformed(reason: "it is not UTF-8")))
        #expect(report["absent"] == .absent)
        // Its bytes are still to be had.
        #expect(try lockbox.migrate(Migration("bytes", .data("k")))["k"] == .migrated)
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "k") == Data([0xC3, 0x28]))
    }

    @Test func oneDamagedItemDoesNotHoldUpTheOthers() throws {
        try write("a".utf8, "a")
        try write("b".utf8, "b")
        let path = try store.damage("a")
        let record = try readBytes(path)
        let report = try lockbox.migrate(Migration("m", .string("a"), .string("b")))
        #expect(report.refused.keys.sorted() == ["a"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "b") == "b")
        #expect(try readBytes(path) == record)
    }

    @Test func aClassThatTheStoreDoesNotHaveIsRefused() throws {
        try write("a".utf8, "a")
        try write("b".utf8, "b")
        let migration = Migration(
            "m",
            .string("a", accessibility: .whenPasscodeSetThisDeviceOnly),
            .string("b", to: "c", accessibility: .whenPasscodeSetThisDeviceOnly),
            .string("absent")
        )
        let preview = try lockbox.migrate(migration, dryRun: true)
        #expect(try lockbox.migrate(migration).refused.keys.sorted() == ["a", "b"])
        #expect(preview.refused.keys.sorted() == ["a", "b"])
        #expect(try bytes("a")?.value.format == .lockbox2)
        #expect(try bytes("b")?.value.format == .lockbox2)
    }

    @Test func anotherKeyAndClass() throws {
        try write("t".utf8, "old", .always)
        try write("u".utf8, "other", .always)
        let migration = Migration(
            "m",
            .string("old", to: "new"),
            .string("other", accessibility: .whenUnlockedThisDeviceOnly)
        )
        #expect(try lockbox.migrate(migration).isComplete)
        #expect(try lockbox.allKeys() == ["new", "other"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "new") == "t")
        #expect(try lockbox.attributes(forKey: "new")?.accessibility == .always)
        #expect(try lockbox.attributes(forKey: "new")?.created == date)
        #expect(try lockbox.attributes(forKey: "other")?.accessibility == .whenUnlockedThisDeviceOnly)
    }

    @Test func oldItemsCanBeKept() throws {
        try write("t".utf8, "old")
        let migration = Migration("m", .string("old", to: "new"), keepsOldItems: true)
        #expect(try lockbox.migrate(migration)["old"] == .migrated)
        #expect(try bytes("old")?.value.data == Data("t".utf8))
        // Deleted in its new form, it does not come back from the old one.
        try lockbox.removeObject(forKey: "new")
        #expect(try lockbox.migrate(migration)["old"] == .migratedBefore)
        #expect(try !lockbox.containsObject(forKey: "new"))
    }

    @Test func whatIsToStayStaysAlsoIfTheSourceIsThisStore() throws {
        try write("t".utf8, "a")
        let before = try bytes("a")
        let migration = Migration(
            "m",
            from: .backend(store.backend()),
            .string("a"),
            .string("a 2", to: "b"),
            keepsOldItems: true
        )
        #expect(try lockbox.migrate(migration)["a"] == .refused(.destinationExists))
        #expect(try bytes("a") == before)
    }

    @Test func whatIsNewIsNeverOverwritten() throws {
        try write("old".utf8, "a")
        try lockbox.archiveObject("new", forKey: "b")
        try lockbox.archiveObject("new", forKey: "c")
        let report = try lockbox.migrate(Migration("m", .string("a", to: "b"), .string("c")))
        #expect(report["a"] == .refused(.destinationExists))
        #expect(report["c"] == .alreadyMigrated)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "b") == "new")
        #expect(try bytes("a")?.value.data == Data("old".utf8))
    }

    @Test func aDryRunTellsAndDoesNothing() throws {
        try writeAll()
        try write("soon".utf8, "when")
        try lockbox.archiveObject("x", forKey: "new")
        let migration = Migration(
            "all",
            items: all.items + [.date("when"), .string("new"), .string("absent")]
        )
        let before = try store.snapshot()
        let report = try lockbox.migrate(migration, dryRun: true)
        #expect(try store.snapshot() == before)
        let real = try lockbox.migrate(migration)
        #expect(real.outcomes.map(\.outcome) == report.outcomes.map(\.outcome))
        #expect(try lockbox.migrate(migration, dryRun: true)["token"] == .migratedBefore)
    }

    @Test func migrationsThatContradictThemselves() throws {
        try write("t".utf8, "a")
        let before = try store.snapshot()
        for migration in [
            Migration("", .string("a")),
            Migration("m", .string("a"), .data("a")),
            Migration("m", .string("a", to: "c"), .string("b", to: "c")),
            Migration("m", .string("a", to: "b"), .string("b", to: "c")),
            Migration("m", .string("a"), keepsOldItems: true),
            Migration("m", .string("")),
            Migration("m", .string("", to: "c")),
            Migration("m", .string("a", to: "")),
        ] {
            expectError(.invalidKey) { try lockbox.migrate(migration) }
        }
        #expect(try store.snapshot() == before)
    }

    @Test func aReportHasOneLineForEachItem() throws {
        let report = try lockbox.migrate(
            Migration("m", .string("a\n\u{1B}[2Jb: migrated"), .string("caf\u{E9}"))
        )
        #expect(report.description == "a\\n\\u{1B}[2Jb: migrated: absent\ncaf\u{E9}: absent")
    }
}
