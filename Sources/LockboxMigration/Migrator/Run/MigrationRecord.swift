package import LockboxCore
import LockboxPlatform
import LockboxSodium

/// The state of a migration: an item under a prefix that apps cannot use.
package struct MigrationRecord: Codable {
    private static let version = 1

    private var version = Self.version
    /// The old keys of the items that are done. The source may have one of them again.
    package var done: Set<String> = []
    /// The process that runs the migration, if any.
    var runner: Runner?

    struct Runner: Codable, Hashable {
        let id: UInt64
        /// Incremented while the process is working.
        var heartbeat: UInt64
    }

    init() {}

    /// Decodes a record, or creates an empty one if there is none.
    init(_ item: ArchivedValue?, _ key: ItemKey) throws {
        guard let item else { return }
        let record = Self.name(key)
        do {
            // The version comes first: nothing else is known about a later one.
            let version = try JSONDecoder().decode(Version.self, from: item.data).version
            guard version == Self.version else {
                throw LockboxError.unsupportedVersion(record: record, version: version)
            }
            self = try JSONDecoder().decode(Self.self, from: item.data)
        } catch is DecodingError {
            throw LockboxError.corrupt(record: record, reason: "it is not well-formed")
        }
    }

    /// The record's name in error messages.
    static func name(_ key: ItemKey) -> String {
        "the record of the migration \(String(reflecting: key.key))"
    }

    private struct Version: Decodable { let version: Int }

    /// - Parameter machine: A hash of the machine whose old items it is about. Nil in a store that is on one machine, or if
    ///   the old items are where all machines have them.
    package static func key(ofMigration name: String, prefix: String, machine: String? = nil) throws
        -> ItemKey
    {
        if name.isEmpty { throw LockboxError.invalidKey(reason: "the migration's name is empty") }
        let reserved = machine.map { "\0migration of \($0)\0" } ?? "\0migration\0"
        let length = reserved.utf8.count + max(prefix.utf8.count, prefix.canonical.utf8.count)
        // No prefix begins with a NUL, so a hash cannot be mistaken for one.
        let suffix = length > ItemKey.maximumLength ? "\0" + hash(of: prefix) : prefix
        return try ItemKey(storedPrefix: reserved + suffix, key: name)
    }

    /// BLAKE2b-256 in hexadecimal.
    private static func hash(of prefix: String) -> String {
        Sodium.hash(of: Array(prefix.canonical.utf8)).hexadecimal
    }

    /// Always readable, and left out of backups, because another machine has its own old items.
    func item(_ key: ItemKey, now: Date) throws -> StoredItem {
        try StoredItem(
            key: key,
            value: ArchivedValue(data: JSONEncoder().encode(self), format: .json),
            accessibility: .alwaysThisDeviceOnly,
            modified: now
        )
    }
}
