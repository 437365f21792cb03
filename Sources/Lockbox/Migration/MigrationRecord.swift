import Clibsodium
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

    private struct Version: Decodable { let version: Int }

    static func key(ofMigration name: String, prefix: String) throws -> ItemKey {
        if name.isEmpty { throw LockboxError.invalidKey(reason: "the migration's name is empty") }
        let reserved = "\0migration\0"
        let length = reserved.utf8.count + max(prefix.utf8.count, prefix.canonical.utf8.count)
        // No prefix begins with a NUL, so that a hash is not taken for one.
        let suffix = length > ItemKey.maximumLength ? "\0" + hash(of: prefix) : prefix
        return try ItemKey(storedPrefix: reserved + suffix, key: name)
    }

    /// BLAKE2b-256, in hexadecimal digits.
    private static func hash(of prefix: String) -> String {
        _ = Sodium.ready
        let text = Array(prefix.canonical.utf8)
        var hash = [UInt8](repeating: 0, count: 32)
        _ = Sodium.ready
        let result = crypto_generichash(&hash, hash.count, text, UInt64(text.count), nil, 0)
        precondition(result == 0, "BLAKE2b takes any text")
        return hash.map { String(format: "%02x", $0) }.joined()
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
