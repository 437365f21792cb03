public import LockboxPlatform

/// The settings of a write besides the value. A part that is `nil` or `unchanged` keeps its value.
///
/// An absent, expired or damaged item has no values to keep: the new item then gets ``Accessibility/whenUnlocked``, no
/// expiry and no texts. Label, comment and attributes are not for secrets: they are encrypted with the device key only.
///
/// ```swift
/// let fixed = WriteOptions(label: "Web shop")
/// let variable = WriteOptions(label: .set(name), comment: AttributeChange(note))  // a nil note removes the comment
/// ```
public struct WriteOptions: Sendable, Hashable {
    /// When the value can be read. If `nil`, the class is kept.
    public var accessibility: Accessibility?

    /// When the item expires. From then on it reads as absent.
    public var expires: Expiry

    /// The short text for people.
    public var label: AttributeChange<String>

    /// The longer text for people.
    public var comment: AttributeChange<String>

    /// The texts by name that the item can be found by. New ones replace all existing ones.
    public var attributes: AttributeChange<[String: String]>

    /// Whether to overwrite an existing item, and whether to create a new one.
    public var policy: WritePolicy

    /// Creates options that set only what is passed.
    ///
    /// - Parameters:
    ///   - accessibility: When the value can be read. If `nil`, the class of the existing item, or
    ///     ``Accessibility/whenUnlocked`` for a new one.
    ///   - expires: When the item expires. From then on it reads as absent.
    ///   - label: A short text for people, at most 4,096 bytes of UTF-8.
    ///   - comment: A longer text for people, at most 4,096 bytes of UTF-8.
    ///   - attributes: Texts by name that the item can be found by: see ``ItemAttributes/searchable``.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    public init(
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        policy: WritePolicy = .replace
    ) {
        self.accessibility = accessibility
        self.expires = expires
        self.label = label
        self.comment = comment
        self.attributes = attributes
        self.policy = policy
    }

    /// Returns these options, and for what they leave out those that a key declares.
    package func over(_ declared: WriteOptions) -> WriteOptions {
        WriteOptions(
            accessibility: accessibility ?? declared.accessibility,
            expires: expires == .automatic ? declared.expires : expires,
            label: label == .unchanged ? declared.label : label,
            comment: comment == .unchanged ? declared.comment : comment,
            attributes: attributes == .unchanged ? declared.attributes : attributes,
            policy: policy == .replace ? declared.policy : policy
        )
    }
}

/// The changes that one write makes to an item.
public struct ItemChanges: Sendable, Hashable {
    /// The new value. If `nil`, the value is kept, and the item must exist.
    public var value: ArchivedValue?

    /// The settings besides the value, and whether the write may overwrite or create an item.
    public var options: WriteOptions

    /// The date of the write. The policy uses it to decide whether an existing item has expired.
    public var modified: Date

    /// When the item was first archived, if this write creates it. If `nil`, ``modified``.
    package var created: Date?

    /// The origin of the class in ``options``.
    private var origin = ClassOrigin(.unlocked)

    /// The time by which an existing item counts as expired, and so as absent: ``modified``. `nil` for a write that keeps the
    /// value and names an expiry: it revives an expired item.
    public var expiryTime: Date? { value == nil && options.expires != .automatic ? nil : modified }

    /// Whether the write may create an item.
    package var createsItem: Bool { value != nil && options.policy != .updateOnly }

    /// Creates a write that changes only the parts that are passed.
    ///
    /// - Parameters:
    ///   - value: The new value. If `nil`, the value is kept, and the item must exist.
    ///   - options: The settings besides the value, and whether the write may overwrite or create an item.
    ///   - modified: The date of the write.
    ///   - created: When the item was first archived, if this write creates it. If `nil`, `modified`.
    public init(
        value: ArchivedValue? = nil,
        options: WriteOptions = WriteOptions(),
        modified: Date,
        created: Date? = nil
    ) {
        self.value = value
        self.options = options
        self.modified = modified
        self.created = created
    }

    /// Creates a write that sets everything. Only the ``created`` date of an existing item is kept.
    ///
    /// - Parameters:
    ///   - item: The item to store.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    package init(_ item: StoredItem, policy: WritePolicy = .replace) {
        let attributes = item.attributes
        let options = WriteOptions(
            accessibility: attributes.accessibility,
            expires: attributes.expires.map(Expiry.at) ?? .never,
            label: AttributeChange(attributes.label),
            comment: AttributeChange(attributes.comment),
            attributes: .set(attributes.searchable),
            policy: policy
        )
        self.init(
            value: item.value,
            options: options,
            modified: attributes.modified,
            created: attributes.created
        )
        origin = attributes.origin
    }

    /// Returns the item after the write, for a backend with a ``LockboxBackend/write(_:to:)`` of its own.
    ///
    /// - Parameters:
    ///   - old: The item before the write, or `nil` if it is absent, or has expired by ``expiryTime``.
    ///   - key: The item's key.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on the policy;
    ///   ``LockboxError/itemNotFound(key:)`` also if there is neither a new value nor an item;
    ///   ``LockboxError/invalidAttribute(name:reason:)``.
    public func item(after old: StoredItem?, for key: ItemKey) throws(LockboxError) -> StoredItem {
        try options.policy.check(key: key.key, exists: old != nil)
        guard let value = value ?? old?.value else { throw LockboxError.itemNotFound(key: key.key) }
        var attributes = try attributes(after: old?.attributes, value: value)
        if let old, old.value == value { attributes = try attributes.claimed(old.attributes.claim) }
        return StoredItem(key: key, value: value, checked: attributes)
    }

    /// Returns the attributes after the write.
    ///
    /// With this and ``WritePolicy/check(key:exists:)``, a backend can replace a value without reading the old one.
    /// ``item(after:for:)`` does both.
    ///
    /// - Parameters:
    ///   - old: The attributes before the write, or `nil` if the item is absent or damaged, or has expired by ``modified``.
    ///   - value: The value after the write.
    /// - Throws: ``LockboxError/invalidAttribute(name:reason:)``; ``LockboxError/classNotProven(_:)`` if the class is to
    ///   be kept, and only an unlocked store can prove who chose it.
    public func attributes(after old: ItemAttributes?, value: ArchivedValue) throws(LockboxError)
        -> ItemAttributes
    {
        if options.accessibility == nil, self.value != nil, let old { try Self.checkOrigin(of: old) }
        var attributes = try ItemAttributes(
            accessibility: options.accessibility ?? old?.accessibility ?? .whenUnlocked,
            created: old?.created ?? created ?? modified,
            modified: modified,
            expires: options.expires.date(
                old?.expires,
                isNewValue: self.value != nil && options.policy != .updateOnly,
                now: modified
            ),
            label: options.label.applied(to: old?.label),
            comment: options.comment.applied(to: old?.comment),
            searchable: searchable(after: old?.searchable ?? [:]),
            size: value.data.count,
            format: value.format
        )
        attributes.origin = options.accessibility == nil ? old?.origin ?? origin : origin
        return attributes
    }

    /// A claim stays with the old value, and goes with it.
    private func searchable(after old: [String: String]) -> [String: String] {
        let (name, claim) = (ItemAttributes.claimName, old[ItemAttributes.claimName])
        var searchable = options.attributes.applied(to: old) ?? [:]
        searchable[name] = value == nil ? claim : nil
        return searchable
    }

    /// A forged lower class must not expose the next value.
    private static func checkOrigin(of old: ItemAttributes) throws(LockboxError) {
        switch old.origin.proof {
        case .unlocked, .unprotected: return
        case .locked: throw .classNotProven(old.accessibility)
        // Everybody may keep a class that needs an unlock.
        case .missing where old.accessibility.needsUnlock: return
        case .missing:
            throw .invalidAttribute(
                name: "accessibility",
                reason:
                    "no writer that could unlock the store chose the item's class, \(old.accessibility); name the class"
            )
        }
    }
}

/// A change of an optional attribute of an item.
///
/// A literal sets the attribute: `label: "Web shop"`. A variable needs `label: .set(name)`, an optional one
/// `label: AttributeChange(name)`.
public enum AttributeChange<Value: Sendable & Hashable>: Sendable, Hashable {
    /// The attribute stays as it is. A new item has none.
    case unchanged

    /// The attribute is removed.
    case removed

    /// The attribute is set to a value.
    case set(Value)

    /// Sets the attribute, or removes it if `value` is `nil`.
    ///
    /// - Parameter value: The new value, or `nil`.
    public init(_ value: Value?) { self = value.map(Self.set) ?? .removed }

    /// Returns the attribute after the write.
    func applied(to old: Value?) -> Value? {
        switch self {
        case .unchanged: old
        case .removed: nil
        case .set(let value): value
        }
    }
}

extension AttributeChange: ExpressibleByUnicodeScalarLiteral where Value == String {}

extension AttributeChange: ExpressibleByExtendedGraphemeClusterLiteral where Value == String {}

extension AttributeChange: ExpressibleByStringLiteral where Value == String {
    /// Sets the attribute.
    public init(stringLiteral value: String) { self = .set(value) }
}

extension AttributeChange: ExpressibleByStringInterpolation where Value == String {}

extension AttributeChange: ExpressibleByDictionaryLiteral where Value == [String: String] {
    /// Sets the attributes. If a name occurs twice, the last text counts.
    public init(dictionaryLiteral elements: (String, String)...) {
        self = .set(Dictionary(elements) { $1 })
    }
}

/// A change of an item's expiry date.
///
/// An expiry belongs to the value: a new value has a new expiry, and a change of anything else keeps it.
public enum Expiry: Sendable, Hashable {
    /// A value that is stored with ``WritePolicy/replace`` or ``WritePolicy/addOnly`` never expires. With
    /// ``WritePolicy/updateOnly``, and if no value is stored, the expiry stays as it is. The default.
    case automatic

    /// The expiry stays as it is. A new item never expires.
    case unchanged

    /// The item never expires.
    case never

    /// The item expires at that instant.
    case at(Date)

    /// The item expires that many seconds after the write.
    case after(TimeInterval)

    /// Returns the date for an item, or nil if it never expires.
    func date(_ old: Date?, isNewValue: Bool, now: Date) -> Date? {
        switch self {
        case .automatic: isNewValue ? nil : old
        case .unchanged: old
        case .never: nil
        case .at(let date): date
        case .after(let seconds): now + seconds
        }
    }
}

/// Whether a write may overwrite an existing item or create a new one.
///
/// Attributes that a write does not set keep their values: class, label, comment and searchable attributes. The expiry
/// belongs to the value: with ``replace``, the new value never expires unless the write sets an expiry. With
/// ``updateOnly``, the old expiry is kept. An expired item counts as absent.
public enum WritePolicy: String, Sendable, Hashable, Codable, CaseIterable {
    /// Stores the value in either case. The default.
    case replace

    /// Stores the value only if the item does not exist, like `SecItemAdd`. Otherwise throws
    /// ``LockboxError/duplicateItem(key:)``.
    case addOnly

    /// Stores the value only if the item exists, like `SecItemUpdate`, and keeps its expiry. Otherwise throws
    /// ``LockboxError/itemNotFound(key:)``.
    case updateOnly
}

extension WritePolicy {
    /// Checks that the policy allows a write.
    ///
    /// - Parameters:
    ///   - key: The item's key without its prefix, for the error.
    ///   - exists: Whether the item exists. An item that has expired by the date of the write does not; one that cannot be
    ///     read does.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``.
    public func check(key: String, exists: Bool) throws(LockboxError) {
        switch (self, exists) {
        case (.addOnly, true): throw LockboxError.duplicateItem(key: key)
        case (.updateOnly, false): throw LockboxError.itemNotFound(key: key)
        default: break
        }
    }
}

/// One operation of a batch: see ``LockboxBackend/apply(_:)``.
///
/// There will be no other cases before the next major version: a backend has to handle all of them.
public enum ItemOperation: Sendable, Hashable {
    /// Creates an item, or changes the parts of an existing one that the changes set.
    case write(ItemChanges, to: ItemKey)

    /// Removes an item, readable or not. Does nothing if it is absent.
    case remove(ItemKey)

    /// Removes an item that can be read. If it is locked, or cannot be read for another reason, that error is thrown. Does
    /// nothing if it is absent. An item that has expired by `now` counts as absent, and may be removed.
    ///
    /// Archiving `nil` does this, because the `nil` may be that of a read that failed.
    case removeReadable(ItemKey, now: Date)

    /// The item's key.
    public var key: ItemKey {
        switch self {
        case .write(_, let key), .remove(let key), .removeReadable(let key, _): key
        }
    }

    /// The creation of an item.
    package static func add(_ item: StoredItem) -> Self {
        .write(ItemChanges(item, policy: .addOnly), to: item.key)
    }

    /// How many items are read and then written in one batch, where there may be any number: as many as files are
    /// open at once. More would hardly be faster.
    package static let batch = 64

    /// How many bytes of values are kept in memory for a batch. A single value may have more.
    package static let batchSize = 4 << 20

    package var createsItem: Bool {
        if case .write(let changes, _) = self { changes.createsItem } else { false }
    }

    /// - Throws: ``LockboxError/itemNotFound(key:)`` for a write, which without a store has nothing to change.
    package func checkIsRemoval() throws(LockboxError) {
        if case .write(_, let key) = self { throw .itemNotFound(key: key.key) }
    }

    /// Checks that each operation of a batch is for another key.
    ///
    /// A backend with a ``LockboxBackend/apply(_:)`` of its own calls this first.
    ///
    /// - Parameter operations: The operations of the batch.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if two operations have the same key.
    public static func checkKeysDiffer(_ operations: [ItemOperation]) throws(LockboxError) {
        var keys: Set<ItemKey> = []
        for operation in operations where !keys.insert(operation.key).inserted {
            let key = String(reflecting: operation.key.key)
            throw .invalidKey(reason: "the batch has two operations for the key \(key)")
        }
    }
}
