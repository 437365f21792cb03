import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Bytes that an app hands over: archives of Lockbox 3 and Strongbox, and texts.
@Suite struct MigrationArchiveTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    private struct User: Codable, Equatable {
        var name: String
        var visits: Int
        var seen: Date
    }

    @Test func archivesOfLockbox3AndStrongbox() throws {
        let user = User(name: "alice", visits: 3, seen: date)
        let items = [
            "name": archive("alice" as NSString, "name"),
            "seen": archive(date as NSDate, "seen"),
            "user": archive(["name": "alice", "visits": 3, "seen": date] as NSDictionary, "user"),
            "boxed": archive(try JSONEncoder().encode(user) as NSData, "boxed"),
            "root": try NSKeyedArchiver.archivedData(
                withRootObject: "r" as NSString,
                requiringSecureCoding: true
            ),
            "strange": archive(NSTimeZone(forSecondsFromGMT: 0), "strange"),
            "other key": archive("x" as NSString, "y"),
            "cut": archive("alice" as NSString, "cut").dropLast(),
            "empty": Data(),
        ]
        let removed = Protected<Set<String>>([])
        let migration = Migration(
            "from Lockbox 3",
            from: .items(items) { keys in removed.withLock { $0 = keys } },
            .archive("name", as: String.self),
            .archive("seen", as: Date.self, accessibility: .always),
            .archive("user", as: User.self),
            .strongbox("boxed", as: User.self),
            .archive("root", as: String.self, topKey: "root"),
            .archive("strange", as: String.self),
            .archive("other key", as: String.self),
            .archive("cut", as: String.self),
            .archive("empty", as: String.self),
            .archive("absent", as: String.self)
        )
        let report = try lockbox.migrate(migration)
        #expect(report.refused.keys.sorted() == ["cut", "empty", "other key", "strange"])
        #expect(report["strange"] == .refused(.unknownClass("NSTimeZone")))
        #expect(report["absent"] == .absent)
        #expect(removed.withLock { $0 } == ["name", "seen", "user", "boxed", "root"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "name") == "alice")
        #expect(try lockbox.unarchiveObject(Date.self, forKey: "seen") == date)
        #expect(try lockbox.attributes(forKey: "seen")?.accessibility == .always)
        #expect(try lockbox.unarchiveObject(User.self, forKey: "user") == user)
        #expect(try lockbox.unarchiveObject(User.self, forKey: "boxed") == user)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "root") == "r")
    }

    /// Of foreign bytes it is not known whether they are of a version that wrote `[]` so.
    @Test func anEmptyCollectionOfForeignBytesIsRefused() throws {
        let migration = Migration(
            "m",
            from: .items(["array": Data(), "set": Data(), "string": Data(), "data": Data([1])]),
            .array("array"),
            .set("set"),
            .string("string"),
            .data("data")
        )
        let report = try lockbox.migrate(migration)
        #expect(report.refused.keys.sorted() == ["array", "set"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "string") == "")
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "data") == Data([1]))
        try write([], "own")
        #expect(try lockbox.migrate(Migration("own", .array("own")))["own"] == .migrated)
        #expect(try lockbox.unarchiveObject([String].self, forKey: "own") == [""])
    }

    /// `archiveObject:nil` of Lockbox 3 left an archive of nothing.
    @Test func whatLockbox3DidNotRemoveIsAbsent() throws {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        archiver.encode(nil, forKey: "session")
        archiver.finishEncoding()
        let removed = Protected<Set<String>>([])
        let source = MigrationSource.items(["session": archiver.encodedData]) { keys in
            removed.withLock { $0 = keys }
        }
        for item in [
            Migration.Item.archive("session", as: String.self), .archive("session", as: String?.self),
            .strongbox("session", as: User.self),
        ] {
            let report = try lockbox.migrate(Migration("m", from: source, items: [item]))
            #expect(report["session"] == .absent && report.isComplete)
        }
        #expect(removed.withLock { $0 }.isEmpty)
        #expect(try lockbox.allKeys().isEmpty)
        try lockbox.archiveObject("new", forKey: "session")
        let report = try lockbox.migrate(Migration("m", from: source, .archive("session", as: String.self)))
        #expect(report["session"] == .alreadyMigrated)
    }

    /// An archive of nil stays in the source.
    @Test func anArchiveOfNothingIsDone() throws {
        try lockbox.archiveObject("new", forKey: "k")
        let nothing = NSKeyedArchiver(requiringSecureCoding: false)
        nothing.encode(nil, forKey: "k")
        nothing.finishEncoding()
        let source = MigrationSource.items(["k": nothing.encodedData]) { _ in }
        let migration = Migration("m", from: source, .archive("k", as: String.self))
        let first = try lockbox.migrate(migration)["k"]
        #expect(first == .alreadyMigrated)
        #expect(try lockbox.migrate(migration)["k"] == .migratedBefore)
    }

    @Test(
        arguments: [
            (.archive("k", as: String.self), "text"), (.value("k", as: String.self), "text"),
            (.json("k", as: Int.self), "\"s3cret\""),
        ] as [(Migration.Item, String)]
    )
    func whatIsRefusedStaysAsItIs(_ item: Migration.Item, _ text: String) throws {
        try write(text.utf8, "k")
        let before = try bytes("k")
        let report = try lockbox.migrate(Migration("m", item))
        #expect(report.refused.keys.sorted() == ["k"] && !report.description.contains("s3cret"))
        #expect(try bytes("k") == before)
    }
}
