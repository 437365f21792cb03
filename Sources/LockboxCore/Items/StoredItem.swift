public import LockboxPlatform

/// An item as a backend receives it and gives it back whole: key, value and attributes.
public struct StoredItem: Sendable, Hashable {
    /// Prefix and key.
    public let key: ItemKey

    /// The value's bytes and format.
    public let value: ArchivedValue

    /// Everything else. Its size and format are the value's.
    public let attributes: ItemAttributes

    /// An item to be written.
    ///
    /// - Parameters:
    ///   - key: Prefix and key.
    ///   - value: The value's bytes and format.
    ///   - accessibility: When the value can be read.
    ///   - created: `modified` if nil. A backend keeps the older `created` of an item that it replaces.
    ///   - modified: The date of the write, which its policy goes by too.
    ///   - expires: From then on the item reads as absent. `nil`: never.
    ///   - label: A short text for people.
    ///   - comment: A longer text for people.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)``; see ``ItemAttributes``.
    public init(
        key: ItemKey,
        value: ArchivedValue,
        accessibility: Accessibility = .whenUnlocked,
        created: Date? = nil,
        modified: Date,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil
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
                size: value.data.count,
                format: value.format
            )
        )
    }

    /// For attributes that belong to `value` already.
    package init(key: ItemKey, value: ArchivedValue, checked attributes: ItemAttributes) {
        self.key = key
        self.value = value
        self.attributes = attributes
    }
}
