import Foundation

/// What is done of a migration: an item under a prefix that no app can have.
struct MigrationRecord: Codable {
    private static let version = 1

    private var version = Self.version
    /// Old keys.
    var done: Set<String> = []

    init() {}

    /// Of the item, if there is one.
    init(_ item: ArchivedValue?, _ key: ItemKey) throws {
        guard let item else { return }
        let record = "the record of the migration \(String(reflecting: key.key))"
        do { self = try JSONDecoder().decode(Self.self, from: item.data) } catch {
            throw LockboxError.corrupt(record: record, reason: "it is not well-formed")
        }
        guard version == Self.version else {
            throw LockboxError.unsupportedVersion(record: record, version: version)
        }
    }

    static func key(ofMigration name: String, prefix: String) throws -> ItemKey {
        if name.isEmpty { throw LockboxError.invalidKey(reason: "the migration's name is empty") }
        return try ItemKey(storedPrefix: "\0migration\0\(prefix)", key: name)
    }

    /// Of a class that can always be read, and that stays out of backups: another machine has its own old items.
    func item(_ key: ItemKey, now: Date) throws -> StoredItem {
        try StoredItem(
            key: key,
            value: ArchivedValue(data: JSONEncoder().encode(self), format: .json),
            accessibility: .alwaysThisDeviceOnly,
            modified: now
        )
    }
}
