public import LockboxPlatform

/// The changes that one write makes to an item. A part that is `nil` or `unchanged` keeps its value.
///
/// An absent, expired or damaged item has no values to keep: the new item then gets ``Accessibility/whenUnlocked``, no
/// expiry and no texts.
public struct ItemChanges: Sendable, Hashable {
    /// The new value. If `nil`, the value is kept, and the item must exist.
    public var value: ArchivedValue?

    /// The new accessibility class. If `nil`, it is kept.
    public var accessibility: Accessibility?

    /// When the item expires.
    public var expires: Expiry

    /// The short text for people.
    public var label: AttributeChange<String>

    /// The longer text for people.
    public var comment: AttributeChange<String>

    /// The searchable attributes. New ones replace all existing ones.
    public var attributes: AttributeChange<[String: String]>

    /// The date of the write. The policy uses it to decide whether an existing item has expired.
    public var modified: Date

    /// When the item was first archived, if this write creates it. If `nil`, ``modified``.
    public var created: Date?

    /// The origin of ``accessibility``.
    private var origin = ClassOrigin(.unlocked)

    /// The time by which an existing item counts as expired, and so as absent: ``modified``. `nil` for a write that keeps the
    /// value and names an expiry: it revives an expired item.
    public var expiryTime: Date? { value == nil && expires != .automatic ? nil : modified }

    /// Creates a write that changes only the parts that are passed.
    ///
    /// - Parameters:
    ///   - value: The new value. If `nil`, the value is kept, and the item must exist.
    ///   - accessibility: The new accessibility class. If `nil`, it is kept.
    ///   - expires: When the item expires.
    ///   - label: The short text for people, at most ``ItemAttributes/maximumTextLength`` bytes of UTF-8.
    ///   - comment: The longer text for people, at most ``ItemAttributes/maximumTextLength`` bytes of UTF-8.
    ///   - attributes: The searchable attributes: see ``ItemAttributes/searchable``.
    ///   - modified: The date of the write.
    ///   - created: When the item was first archived, if this write creates it. If `nil`, `modified`.
    public init(
        value: ArchivedValue? = nil,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        modified: Date,
        created: Date? = nil
    ) {
        self.value = value
        self.accessibility = accessibility
        self.expires = expires
        self.label = label
        self.comment = comment
        self.attributes = attributes
        self.modified = modified
        self.created = created
    }

    /// Creates a write that sets everything. Only the ``created`` date of an existing item is kept.
    ///
    /// - Parameter item: The item to store.
    public init(_ item: StoredItem) {
        let attributes = item.attributes
        self.init(
            value: item.value,
            accessibility: attributes.accessibility,
            expires: attributes.expires.map(Expiry.at) ?? .never,
            label: AttributeChange(attributes.label),
            comment: AttributeChange(attributes.comment),
            attributes: .set(attributes.searchable),
            modified: attributes.modified,
            created: attributes.created
        )
        origin = attributes.origin
    }
}

/// What a backend stores that has a ``LockboxBackend/write(_:to:policy:)`` of its own.
extension ItemChanges {
    /// Returns the item after the write.
    ///
    /// - Parameters:
    ///   - old: The item before the write, or `nil` if it is absent, or has expired by ``expiryTime``.
    ///   - key: The item's key.
    ///   - policy: Whether the write may overwrite an existing item or create a new one.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on `policy`;
    ///   ``LockboxError/itemNotFound(key:)`` also if there is neither a new value nor an item;
    ///   ``LockboxError/invalidAttribute(name:reason:)``.
    public func item(after old: StoredItem?, for key: ItemKey, policy: WritePolicy) throws(LockboxError)
        -> StoredItem
    {
        try policy.check(key: key.key, exists: old != nil)
        guard let value = value ?? old?.value else { throw LockboxError.itemNotFound(key: key.key) }
        return StoredItem(
            key: key,
            value: value,
            checked: try attributes(after: old?.attributes, value: value, policy: policy)
        )
    }

    /// Returns the attributes after the write.
    ///
    /// With this and ``WritePolicy/check(key:exists:)``, a backend can replace a value without reading the old one.
    /// ``item(after:for:policy:)`` does both.
    ///
    /// - Parameters:
    ///   - old: The attributes before the write, or `nil` if the item is absent or damaged, or has expired by ``modified``.
    ///   - value: The value after the write.
    ///   - policy: The policy of the write, which decides about the expiry: see ``Expiry/automatic``.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)``; ``LockboxError/interactionNotAllowed(_:)`` if the class is to
    ///   be kept, and only an unlocked store can prove who chose it.
    public func attributes(
        after old: ItemAttributes?,
        value: ArchivedValue,
        policy: WritePolicy
    ) throws(LockboxError) -> ItemAttributes {
        if accessibility == nil, self.value != nil, let old { try Self.checkOrigin(of: old) }
        var attributes = try ItemAttributes(
            accessibility: accessibility ?? old?.accessibility ?? .whenUnlocked,
            created: old?.created ?? created ?? modified,
            modified: modified,
            expires: expires.date(
                old?.expires,
                isNewValue: self.value != nil && policy != .updateOnly,
                now: modified
            ),
            label: label.applied(to: old?.label),
            comment: comment.applied(to: old?.comment),
            searchable: attributes.applied(to: old?.searchable) ?? [:],
            size: value.data.count,
            format: value.format
        )
        attributes.origin = accessibility == nil ? old?.origin ?? origin : origin
        return attributes
    }

    /// A forged lower class must not expose the next value.
    private static func checkOrigin(of old: ItemAttributes) throws(LockboxError) {
        switch old.origin.proof {
        case .unlocked, .unprotected: return
        case .locked: throw .interactionNotAllowed(.whenUnlocked)
        case .missing:
            throw .invalidAttribute(
                name: "accessibility",
                reason:
                    "nobody who could unlock the store chose the item's class, \(old.accessibility); name the class"
            )
        }
    }
}
