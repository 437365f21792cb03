import Foundation
import Lockbox
import LockboxTesting
import Testing

@testable import JSONFileBackend

/// Tests by the author of a backend: this package has of Lockbox only what is public.
@Suite struct JSONFileBackendTests {
    private let url: URL

    init() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        url = folder.appendingPathComponent("items.json")
    }

    /// Overwrites what the file has of an item.
    private static func damage(_ key: ItemKey, in url: URL) throws {
        let json = try JSONSerialization.jsonObject(with: Data(contentsOf: url))
        var rows = try #require(json as? [[String: String]])
        let index = try #require(rows.firstIndex { $0["prefix"] == key.prefix && $0["key"] == key.key })
        rows[index]["metadata"] = Data("damaged".utf8).base64EncodedString()
        try JSONSerialization.data(withJSONObject: rows).write(to: url)
    }

    @Test(arguments: BackendConformance.all)
    func conforms(_ requirement: BackendConformance) throws {
        defer { try? FileManager.default.removeItem(at: url.deletingLastPathComponent()) }
        try requirement.check(damage: { [url] in try Self.damage($1, in: url) }) { JSONFileBackend(url) }
    }

    /// It may have been killed in a `checkAccess`, and in a migration.
    @Test func recordsOfLockboxItselfAreInNobodysWay() throws {
        defer { try? FileManager.default.removeItem(at: url.deletingLastPathComponent()) }
        let backend = JSONFileBackend(url)
        for prefix in ["\0transfer", "\0migration\0com.example.app"] {
            try backend.write(
                ItemChanges(
                    value: ArchivedValue(data: Data(), format: .data),
                    modified: Date(timeIntervalSinceReferenceDate: 0)
                ),
                to: ItemKey(storedPrefix: prefix, key: "left behind")
            )
        }
        let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: JSONFileBackend(url))
        try lockbox.archiveObject("8f14e45f", forKey: "token")
        try lockbox.checkAccess()
        #expect(try lockbox.unarchiveObject(forKey: "token") == "8f14e45f")
        #expect(try lockbox.backend.prefixes() == ["com.example.app"])
        let copy = InMemoryBackend()
        #expect(try lockbox.backend.moveItems(to: copy).isComplete)
        #expect(copy.prefixes() == ["com.example.app"])
    }

    /// A damaged item is refused, and the migration goes on with the others.
    @Test func aMigrationGoesPastADamagedItem() throws {
        defer { try? FileManager.default.removeItem(at: url.deletingLastPathComponent()) }
        let backend = JSONFileBackend(url)
        let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: backend)
        try lockbox.archiveObject("old", forKey: "damaged")
        try Self.damage(ItemKey(prefix: "com.example.app", key: "damaged"), in: url)
        #expect(try backend.verify { _ in }.findings.map(\.kind) == [.damaged])
        let migration = Migration(
            "test",
            from: .items(["damaged": Data("a".utf8), "intact": Data("b".utf8)]),
            .string("damaged"),
            .string("intact")
        )
        let report = try lockbox.migrate(migration)
        #expect(!report.isComplete)
        #expect(try lockbox.unarchiveObject(forKey: "intact") == "b")
    }
}
