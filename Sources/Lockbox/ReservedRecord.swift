@_spi(Extensions) package import LockboxCore
import LockboxPlatform
@_spi(Extensions) import LockboxStore

/// A record of Lockbox's own, as an item in JSON under a prefix that apps cannot use: no list shows it, and no backup has it.
package protocol ReservedRecord: Codable {
    var version: Int { get }

    /// An empty one, of this version.
    init()

    /// The record's name in error messages.
    static func name(_ key: ItemKey) -> String
}

extension ReservedRecord {
    /// Decodes a record, or creates an empty one if there is none.
    init(_ value: ArchivedValue?, _ key: ItemKey) throws {
        self.init()
        guard let value else { return }
        do {
            // The version comes first: nothing else is known about a later one.
            let found = try JSONDecoder().decode(RecordVersion.self, from: value.data).version
            guard found == version else {
                throw LockboxError.unsupportedVersion(record: .record(Self.name(key)), version: found)
            }
            self = try JSONDecoder().decode(Self.self, from: value.data)
        } catch is DecodingError {
            throw LockboxError.corrupt(record: .record(Self.name(key)), reason: "it is not well-formed")
        }
    }

    /// - Parameter reserved: Begins with a NUL.
    static func key(_ name: String, of prefix: String, in reserved: String) throws -> ItemKey {
        let length = reserved.utf8.count + max(prefix.utf8.count, prefix.canonical.utf8.count)
        // No prefix begins with a NUL, so a hash cannot be mistaken for one.
        let suffix =
            length > ItemKey.maximumLength
            ? "\0" + Sodium.hash(of: Array(prefix.canonical.utf8)).hexadecimal : prefix
        return try ItemKey(storedPrefix: reserved + suffix, key: name)
    }

    func item(_ key: ItemKey, _ accessibility: Accessibility, now: Date) throws -> StoredItem {
        try StoredItem(
            key: key,
            value: ArchivedValue(data: JSONEncoder().encode(self), format: .json),
            accessibility: accessibility,
            modified: now
        )
    }
}

private struct RecordVersion: Decodable { let version: Int }
