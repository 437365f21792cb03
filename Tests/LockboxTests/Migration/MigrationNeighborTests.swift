import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Promise 12, for migrations: one item that cannot be used does not prevent the others from being migrated.
@Suite struct MigrationNeighborTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    enum Damage: CaseIterable {
        case mode, link, folder, flipped

        var code: LockboxError.Code { self == .flipped ? .authenticationFailed : .unsafePermissions }

        func make(at path: String) throws {
            switch self {
            case .mode: #expect(chmod(path, 0o640) == 0)
            case .link:
                #expect(unlink(path) == 0)
                #expect(symlink("/etc/passwd", path) == 0)
            case .folder:
                #expect(unlink(path) == 0)
                #expect(mkdir(path, 0o700) == 0)
            case .flipped:
                var bytes = try readBytes(path)
                bytes[100] ^= 1
                try overwrite(path, bytes)
            }
        }
    }

    @Test(arguments: Damage.allCases) func anUnsafeItemOfTheStore(_ damage: Damage) throws {
        for key in ["a", "b"] { try write(key.utf8, key) }
        try damage.make(at: store.path("a"))
        let report = try lockbox.migrate(Migration("m", .string("a"), .string("b")))
        #expect(Array(report.refused.keys) == ["a"] && report["b"] == .migrated)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "b") == "b")
        expectError(damage.code) { try MigrationSource.store.keys(for: lockbox) }
        #expect(try MigrationSource.store.keys(for: lockbox) { _ in }.isEmpty)
    }

    @Test(arguments: Damage.allCases) func anUnsafeItemAtTheDestination(_ damage: Damage) throws {
        try lockbox.archiveObject("a", forKey: "a")
        try damage.make(at: store.path("a"))
        let path = try file("app.env", "a=1\nb=2\n".utf8)
        let migration = Migration("m", from: .lines(at: path), .string("a"), .string("b"))
        let report = try lockbox.migrate(migration)
        #expect(Array(report.refused.keys) == ["a"] && report["b"] == .migrated)
        #expect(try text(path) == "a=1\n")
    }

    @Test(arguments: Damage.allCases) func anUnsafeItemOfTheSource(_ damage: Damage) throws {
        let other = try TestStore()
        let old = try other.lockbox("old")
        for key in ["a", "b"] { try write(key.utf8, key, in: old) }
        try damage.make(at: other.path("a", prefix: "old"))
        let source = MigrationSource.backend(old.backend, keyPrefix: "old")
        expectError(damage.code, "nothing is hidden") { try source.keys(for: lockbox) }
        var unreadable: [UnreadableItem] = []
        #expect(try source.keys(for: lockbox) { unreadable.append($0) } == ["b"])
        #expect(try unreadable.map(\.location) == [other.path("a", prefix: "old")])
        let report = try lockbox.migrate(Migration("m", from: source, .string("a"), .string("b")))
        #expect(Array(report.refused.keys) == ["a"] && report["b"] == .migrated)
    }

    /// An item newer than the keybag, as when an old keybag was put back.
    @Test func anItemOfAnEpochThatIsNotThere() throws {
        for key in ["a", "b"] { try write(key.utf8, key) }
        var bytes = try readBytes(store.path("a"))
        bytes[8] = 9
        try overwrite(store.path("a"), bytes)
        let report = try lockbox.migrate(Migration("m", .string("a"), .string("b")))
        #expect(Array(report.refused.keys) == ["a"] && report["b"] == .migrated)
    }

    /// The class that the program requires of the new item is not that of the old one.
    @Test func anItemThatTheProgramRefuses() throws {
        try write("a".utf8, "a", .always)
        try write("b".utf8, "b", .whenUnlocked)
        let lockbox = try store.backend(requires: .init(minimumAccessibility: .whenUnlocked)).lockbox()
        let file = try file("app.env", "c=1\nd=2\n".utf8)
        let report = try lockbox.migrate(Migration("m", .string("a"), .string("b")))
        #expect(Array(report.refused.keys) == ["a"] && report["b"] == .migrated)
        let others = try lockbox.migrate(
            Migration(
                "n",
                from: .lines(at: file),
                .string("c", accessibility: .always),
                .string("d")
            )
        )
        #expect(Array(others.refused.keys) == ["c"] && others["d"] == .migrated)
    }

    @Test func anErrorOfTheWholeStoreIsThrown() throws {
        for key in ["a", "b"] { try write(key.utf8, key) }
        let folder = try Path.parent(of: store.path("a"))
        #expect(chmod(folder, 0o770) == 0)
        let lockbox = try store.lockbox()
        expectError(.unsafePermissions) { try lockbox.migrate(Migration("m", .string("a"), .string("b"))) }
        expectError(.unsafePermissions) { try MigrationSource.store.keys(for: lockbox) }
    }
}
