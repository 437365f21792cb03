package import LockboxCore
import LockboxPlatform
import LockboxSodium

/// What is done of a migration: an item under a prefix that no app can have.
package struct MigrationRecord: Codable {
    private static let version = 1

    private var version = Self.version
    /// Old keys.
    package var done: Set<String> = []
    /// Who is at work, if anybody is.
    var runner: Runner?

    struct Runner: Codable, Hashable {
        let id: UInt64
        /// Changes as long as the runner is at work.
        var beat: UInt64
    }

    init() {}

    /// Of the item, if there is one.
    init(_ item: ArchivedValue?, _ key: ItemKey) throws {
        guard let item else { return }
        let record = Self.name(key)
        do {
            // First: of a later version, nothing else is known.
            let version = try JSONDecoder().decode(Version.self, from: item.data).version
            guard version == Self.version else {
                throw LockboxError.unsupportedVersion(record: record, version: version)
            }
            self = try JSONDecoder().decode(Self.self, from: item.data)
        } catch is DecodingError {
            throw LockboxError.corrupt(record: record, reason: "it is not well-formed")
        }
    }

    /// What to call the record in an error.
    static func name(_ key: ItemKey) -> String {
        "the record of the migration \(String(reflecting: key.key))"
    }

    private struct Version: Decodable { let version: Int }

    package static func key(ofMigration name: String, prefix: String) throws -> ItemKey {
        if name.isEmpty { throw LockboxError.invalidKey(reason: "the migration's name is empty") }
        let reserved = "\0migration\0"
        let length = reserved.utf8.count + max(prefix.utf8.count, prefix.canonical.utf8.count)
        // No prefix begins with a NUL, so that a hash is not taken for one.
        let suffix = length > ItemKey.maximumLength ? "\0" + hash(of: prefix) : prefix
        return try ItemKey(storedPrefix: reserved + suffix, key: name)
    }

    /// BLAKE2b-256, in hexadecimal digits.
    private static func hash(of prefix: String) -> String {
        Sodium.hash(of: Array(prefix.canonical.utf8)).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
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
