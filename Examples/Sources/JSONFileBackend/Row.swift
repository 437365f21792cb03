import Foundation
import Lockbox

/// An item in the file.
struct Row: Codable, Equatable {
    let prefix: String
    let key: String
    let value: Data
    /// JSON again, so that a damaged row leaves the others readable.
    let metadata: Data

    init(_ key: ItemKey, _ value: ArchivedValue, _ attributes: ItemAttributes) throws {
        prefix = key.prefix
        self.key = key.key
        self.value = value.data
        metadata = try JSONEncoder().encode(Metadata(attributes))
    }

    /// The location that errors about an item name.
    static func location(_ key: ItemKey) -> String {
        "\(String(reflecting: key.prefix)), \(String(reflecting: key.key))"
    }

    func attributes(_ key: ItemKey) throws -> ItemAttributes {
        do {
            return try JSONDecoder().decode(Metadata.self, from: metadata).attributes(size: value.count)
        } catch is DecodingError {
            throw LockboxError.corrupt(
                record: .record(Self.location(key)),
                reason: "its metadata is not JSON"
            )
        }
    }

    /// Returns nil if the item has expired.
    func item(_ key: ItemKey, at now: Date?) throws -> StoredItem? {
        let attributes = try attributes(key)
        if attributes.isExpired(at: now) { return nil }
        return try StoredItem(
            key: key,
            value: ArchivedValue(data: value, format: attributes.format),
            accessibility: attributes.accessibility,
            created: attributes.created,
            modified: attributes.modified,
            expires: attributes.expires,
            label: attributes.label,
            comment: attributes.comment,
            searchable: attributes.searchable
        )
    }
}

private struct Metadata: Codable {
    let accessibility: Accessibility
    let created, modified: Date
    let expires: Date?
    let label, comment: String?
    let searchable: [String: String]
    let format: ValueFormat

    init(_ attributes: ItemAttributes) {
        accessibility = attributes.accessibility
        created = attributes.created
        modified = attributes.modified
        expires = attributes.expires
        label = attributes.label
        comment = attributes.comment
        searchable = attributes.searchable
        format = attributes.format
    }

    func attributes(size: Int) throws -> ItemAttributes {
        try ItemAttributes(
            accessibility: accessibility,
            created: created,
            modified: modified,
            expires: expires,
            label: label,
            comment: comment,
            searchable: searchable,
            size: size,
            format: format
        )
    }
}
