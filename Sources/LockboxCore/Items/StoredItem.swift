public import LockboxPlatform

/// A complete item: key, value and attributes.
public struct StoredItem: Sendable, Hashable {
    /// The prefix and the key.
    public let key: ItemKey

    /// The encoded value and its format.
    public let value: ArchivedValue

    /// The metadata. ``ItemAttributes/size`` and ``ItemAttributes/format`` are those of ``value``.
    public let attributes: ItemAttributes

    /// Creates an item to store.
    ///
    /// - Parameters:
    ///   - key: The prefix and the key.
    ///   - value: The encoded value and its format.
    ///   - accessibility: When the value can be read.
    ///   - created: When the item was first archived. If `nil`, `modified`. When a backend replaces an item, it
    ///     keeps the old item's date.
    ///   - modified: The date of the write. The write's policy uses it to decide whether an existing item has
    ///     expired.
    ///   - expires: When the item expires. If `nil`, it never expires.
    ///   - label: A short text for people.
    ///   - comment: A longer text for people.
    ///   - searchable: Texts by name that the item can be found by.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)``; see ``ItemAttributes``.
    public init(
        key: ItemKey,
        value: ArchivedValue,
        accessibility: Accessibility = .whenUnlocked,
        created: Date? = nil,
        modified: Date,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        searchable: [String: String] = [:]
    ) throws(LockboxError) {
        self.init(
            key: key,
            value: value,
            checked: try ItemAttributes(
                accessibility: accessibility,
                created: created ?? modified,
                modified: modified,
                expires: expires,
                label: label,
                comment: comment,
                searchable: searchable,
                size: value.data.count,
                format: value.format
            )
        )
    }

    /// Creates an item from attributes that already match `value`.
    package init(key: ItemKey, value: ArchivedValue, checked attributes: ItemAttributes) {
        self.key = key
        self.value = value
        self.attributes = attributes
    }
}
