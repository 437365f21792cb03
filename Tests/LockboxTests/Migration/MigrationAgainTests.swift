import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore
import LockboxTesting

/// Old items that come, or come back, after their migration was recorded as done.
@Suite struct MigrationAgainTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    /// A file on a disk that is mounted later, when the app has made a new item already.
    @Test func anItemThatComesAfterTheNewOne() throws {
        let path = "\(Path.parent(of: store.directory))/app.env"
        let migration = Migration("m", from: .lines(at: path), .string("token"), .string("other"))
        try lockbox.archiveObject("new", forKey: "token")
        try lockbox.archiveObject("same", forKey: "other")
        for _ in 0..<2 {
            let report = try lockbox.migrate(migration)
            #expect(report.outcomes.map(\.outcome) == [.alreadyMigrated, .alreadyMigrated])
        }
        _ = try file("app.env", "token=old\nother=same\n".utf8)
        for _ in 0..<2 {
            let report = try lockbox.migrate(migration)
            #expect(report["token"] == .refused(.destinationExists) && !report.isComplete)
        }
        #expect(try text(path) == "token=old\n", "of equal ones, the old one goes")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "token") == "new")
    }

    /// Nothing is written about what may still come.
    @Test func whatIsNewElsewhereIsNotRecorded() throws {
        try lockbox.archiveObject("new", forKey: "token")
        let source = MigrationSource.backend(InMemoryBackend(), keyPrefix: "old")
        let before = try store.snapshot()
        #expect(
            try lockbox.migrate(Migration("m", from: source, .string("token")))["token"] == .alreadyMigrated
        )
        #expect(try store.snapshot() == before)
    }

    /// An older version of the app has run in between, as after a way back.
    @Test func lockbox2sBytesAreWrittenAgain() throws {
        try write("first".utf8, "token")
        try write("moved".utf8, "old")
        let migration = Migration("m", .string("token"), .string("old", to: "new"))
        #expect(try lockbox.migrate(migration).isComplete)
        try write("second".utf8, "token")
        try write("moved".utf8, "old")
        #expect(try lockbox.migrate(migration, dryRun: true)["token"] == .migrated)
        var progress: [StoreProgress] = []
        let report = try lockbox.migrate(migration) { progress.append($0) }
        #expect(report.outcomes.map(\.outcome) == [.migrated, .migrated])
        #expect(progress.last == StoreProgress(completed: 2, total: 2))
        #expect(try lockbox.unarchiveObject(String.self, forKey: "token") == "second")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "new") == "moved")
        #expect(try lockbox.allKeys() == ["token", "new"])
        try write("another".utf8, "old")
        let taken = try lockbox.migrate(migration)
        #expect(taken.outcomes.map(\.outcome) == [.migratedBefore, .refused(.destinationExists)])
        #expect(try bytes("old")?.value.data == Data("another".utf8))
        // A new item in its place is none of Lockbox 2's.
        try lockbox.archiveObject("mine", forKey: "old")
        #expect(try lockbox.migrate(migration)["old"] == .migratedBefore)
    }

    @Test func aFileHasItAgain() throws {
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let migration = Migration("m", from: .lines(at: path), .string("A"), .string("B"))
        #expect(try lockbox.migrate(migration).isComplete)
        try overwrite(path, Array("A=1\nB=3\n".utf8))
        let report = try lockbox.migrate(migration)
        #expect(report.outcomes.map(\.outcome) == [.migrated, .refused(.destinationExists)])
        #expect(try text(path) == "B=3\n")
        try #require(unlink(path) == 0)
        #expect(try lockbox.migrate(migration).outcomes.map(\.outcome) == [.migratedBefore, .migratedBefore])
    }

    @Test func anotherBackendHasItAgain() throws {
        let other = InMemoryBackend()
        let old = try other.lockbox("old")
        let source = MigrationSource.backend(other, keyPrefix: "old")
        let migration = Migration("m", from: source, .string("a"), .string("b"))
        try write("a".utf8, "a", in: old)
        try old.archiveObject("b", forKey: "b")
        #expect(try lockbox.migrate(migration).isComplete)
        try write("a".utf8, "a", in: old)
        try old.archiveObject("other", forKey: "b")
        let report = try lockbox.migrate(migration)
        #expect(report.outcomes.map(\.outcome) == [.migrated, .refused(.destinationExists)])
        #expect(try old.allKeys() == ["b"])
    }

    @Test func anotherPrefixHasItAgain() throws {
        let old = try store.lockbox("old")
        let source = MigrationSource.backend(lockbox.backend, keyPrefix: "old")
        let migration = Migration("m", from: source, .string("a"), .string("b", to: "c"))
        for value in ["first", "second"] {
            for key in ["a", "b"] { try old.archiveObject(value, forKey: key) }
            let report = try lockbox.migrate(migration)
            #expect(report.outcomes.map(\.outcome) == [.migrated, .migrated])
            #expect(try lockbox.unarchiveObject(String.self, forKey: "a") == value)
            #expect(try lockbox.unarchiveObject(String.self, forKey: "c") == value)
            #expect(try old.allKeys().isEmpty)
            for key in ["a", "c"] { try lockbox.removeObject(forKey: key) }
        }
        #expect(try lockbox.migrate(migration)["a"] == .migratedBefore)
    }

    /// An item that stays in the source anyhow is not looked at.
    @Test func keptItemsAreDone() throws {
        let path = try file("app.env", "A=1\n".utf8)
        let kept = Migration("kept", from: .lines(at: path), .string("A"), keepsOldItems: true)
        let given = Migration("given", from: .items(["A": Data("1".utf8)]), .string("A", to: "B"))
        for migration in [kept, given] { #expect(try lockbox.migrate(migration)["A"] == .migrated) }
        try lockbox.archiveObject("2", forKey: "A")
        try lockbox.archiveObject("2", forKey: "B")
        for migration in [kept, given] { #expect(try lockbox.migrate(migration)["A"] == .migratedBefore) }
    }

    /// The same store, opened twice: it is where it belongs, and stays there.
    @Test func whatIsInPlaceIsNotProbedEachTime() throws {
        try lockbox.archiveObject("v", forKey: "k")
        let migration = Migration("m", from: .backend(store.backend()), .string("k"))
        #expect(try lockbox.migrate(migration)["k"] == .alreadyMigrated)
        let calls = Protected(0)
        let counting = SystemCalls { call in
            if call == .rename { calls.withLock { $0 += 1 } }
            return nil
        }
        #expect(try store.backend(counting).lockbox().migrate(migration)["k"] == .migratedBefore)
        #expect(calls.withLock { $0 } == 0)
    }

    // MARK: The cost of a finished migration

    @Test func aFinishedMigrationReadsEachItemOnce() throws {
        let backend = CountingBackend()
        let lockbox = try backend.lockbox("p")
        let keys = (0..<20).map { "\($0)" }
        for key in keys { try write("v".utf8, key, in: lockbox) }
        for number in 0..<100 { try lockbox.archiveObject("v", forKey: "other \(number)") }
        let migration = Migration("m", items: keys.map { .string($0) })
        #expect(try lockbox.migrate(migration).isComplete)
        let before = backend.calls
        #expect(try lockbox.migrate(migration).outcomes.allSatisfy { $0.outcome == .migratedBefore })
        #expect(backend.calls - before <= keys.count + 1)
    }

    /// The app starts all the same.
    @Test func aSourceThatCannotBeReadIsNoErrorOfAFinishedMigration() throws {
        let path = try file("app.env", "A=1\n".utf8)
        let migration = Migration("m", from: .lines(at: path), .string("A"))
        #expect(try lockbox.migrate(migration).isComplete)
        try overwrite(path, Array("not a variable\n".utf8))
        let report = try lockbox.migrate(migration)
        #expect(Array(report.refused.keys) == ["A"] && !report.isComplete)
        // Unless there is something left to do.
        let more = Migration("m", from: .lines(at: path), .string("A"), .string("B"))
        expectError(.sourceRefused) { try lockbox.migrate(more) }
    }

    @Test func aLockedSourceIsNoErrorOfAFinishedMigration() throws {
        let old = FailingBackend()
        let other = try old.lockbox("old")
        try write("a".utf8, "a", in: other)
        let migration = Migration("m", from: .backend(old, keyPrefix: "old"), .string("a"))
        #expect(try lockbox.migrate(migration).isComplete)
        old.fail(with: LockboxError.interactionNotAllowed(.whenUnlocked))
        #expect(try Array(lockbox.migrate(migration).refused.keys) == ["a"])
        old.succeed()
        #expect(try lockbox.migrate(migration)["a"] == .migratedBefore)
    }
}
