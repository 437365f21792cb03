import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// A store for items of Lockbox 2, and files beside it.
protocol MigrationFixture {
    var store: TestStore { get }
    var lockbox: Lockbox { get }
}

extension MigrationFixture {
    var date: Date { Date(timeIntervalSinceReferenceDate: 801_234_567.890625) }

    /// Writes an item of Lockbox 2.
    func write(
        _ text: some Sequence<UInt8>,
        _ key: String,
        _ accessibility: Accessibility = .whenUnlocked,
        in lockbox: Lockbox? = nil
    ) throws {
        let lockbox = lockbox ?? self.lockbox
        let item = try StoredItem(
            key: lockbox.itemKey(key),
            value: ArchivedValue(data: Data(text), format: .lockbox2),
            accessibility: accessibility,
            modified: date,
            expires: date + 1e9,
            label: "label of \(key)",
            comment: "comment of \(key)"
        )
        try lockbox.backend.write(item, policy: .replace)
    }

    /// Writes one item of each type that Lockbox 2 had.
    func writeAll(in lockbox: Lockbox? = nil) throws {
        try write("t0ken".utf8, "token", .afterFirstUnlock, in: lockbox)
        try write("b-|-a".utf8, "array", in: lockbox)
        try write("b-|-a".utf8, "set", .always, in: lockbox)
        try write("k2-|-k1-|-v2-|-v1".utf8, "dictionary", in: lockbox)
        try write("801234567.890625".utf8, "date", .alwaysThisDeviceOnly, in: lockbox)
    }

    /// The migration of all that `writeAll` writes.
    var all: Migration {
        Migration(
            "all",
            .string("token"),
            .array("array"),
            .set("set"),
            .dictionary("dictionary"),
            .date("date")
        )
    }

    func expectAll(in lockbox: Lockbox? = nil) throws {
        let lockbox = lockbox ?? self.lockbox
        #expect(try lockbox.unarchiveObject(String.self, forKey: "token") == "t0ken")
        #expect(try lockbox.unarchiveObject([String].self, forKey: "array") == ["b", "a"])
        #expect(try lockbox.unarchiveObject(Set<String>.self, forKey: "set") == ["a", "b"])
        #expect(
            try lockbox.unarchiveObject([String: String].self, forKey: "dictionary") == [
                "k1": "v1", "k2": "v2",
            ]
        )
        #expect(try lockbox.unarchiveObject(Date.self, forKey: "date") == date)
    }

    /// The item as it is stored.
    func bytes(_ key: String) throws -> StoredItem? {
        try lockbox.backend.item(for: lockbox.itemKey(key), now: nil)
    }

    /// An archive like Lockbox 3's.
    func archive(_ object: Any, _ key: String) -> Data {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        archiver.encode(object, forKey: key)
        archiver.finishEncoding()
        return archiver.encodedData
    }

    /// A file beside the store.
    func file(_ name: String, _ bytes: some Sequence<UInt8>, mode: Int = 0o600) throws -> String {
        let path = "\(Path.parent(of: store.directory))/\(name)"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    func text(_ path: String) throws -> String {
        String(decoding: try readBytes(path), as: UTF8.self)
    }
}

extension MigrationReport {
    subscript(key: String) -> Outcome? { outcomes.first { $0.key == key }?.outcome }
}
