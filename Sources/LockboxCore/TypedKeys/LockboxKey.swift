/// A key with the type of its value, its default, and the attributes that every write sets.
///
/// ```swift
/// extension LockboxKey<Session?> {
///     static var session: Self { Self("session", accessibility: .afterFirstUnlock) }
/// }
/// extension LockboxKey<Int> {
///     static var attempts: Self { Self("attempts", default: 0) }
/// }
///
/// try lockbox.archiveObject(session, forKey: .session)
/// let attempts = try lockbox[.attempts]
/// try lockbox.update(.attempts) { $0 += 1 }
/// ```
///
/// The default stands for an absent or expired item, and for nothing else: a locked or damaged item throws. A read never
/// stores it.
///
/// Attributes that the key does not declare keep their values when the item is written: class, label, comment and
/// searchable attributes. The expiry belongs to the value: with ``WritePolicy/replace``, the new value never expires unless
/// the key declares an expiry. With ``WritePolicy/updateOnly`` and `update(_:_:)`, the old expiry is kept.
public struct LockboxKey<Value: Codable & Sendable>: Sendable {
    /// The item's key: not empty, at most 4,096 bytes of UTF-8.
    public let name: String

    /// The value that stands for an absent or expired item.
    public let defaultValue: Value

    /// When the value can be read. If `nil`, a write keeps the class of an existing item.
    public let accessibility: Accessibility?

    /// The expiry that each write sets.
    public let expires: Expiry

    /// The short text for people. Not for secrets.
    public let label: AttributeChange<String>

    /// The longer text for people. Not for secrets.
    public let comment: AttributeChange<String>

    /// The searchable attributes: see ``ItemAttributes/searchable``. Not for secrets.
    public let attributes: AttributeChange<[String: String]>

    /// Creates a key for a value that always exists.
    ///
    /// - Parameters:
    ///   - name: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - defaultValue: The value that stands for an absent or expired item.
    ///   - accessibility: When the value can be read. If `nil`, a write keeps the class of an existing item.
    ///   - expires: The expiry that each write sets.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - attributes: Texts by name that the item can be found by. Not for secrets.
    @_disfavoredOverload  // the other one, if the value is optional
    public init(
        _ name: String,
        default defaultValue: Value,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged
    ) {
        self.name = name
        self.defaultValue = defaultValue
        self.accessibility = accessibility
        self.expires = expires
        self.label = label
        self.comment = comment
        self.attributes = attributes
    }

    /// Creates a key for an optional value. Archiving `nil` removes the item.
    ///
    /// - Parameters:
    ///   - name: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - defaultValue: The value that stands for an absent or expired item.
    ///   - accessibility: When the value can be read. If `nil`, a write keeps the class of an existing item.
    ///   - expires: The expiry that each write sets.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - attributes: Texts by name that the item can be found by. Not for secrets.
    public init<Wrapped: Codable & Sendable>(
        _ name: String,
        default defaultValue: Wrapped? = nil,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged
    ) where Value == Wrapped? {
        self.name = name
        self.defaultValue = defaultValue
        self.accessibility = accessibility
        self.expires = expires
        self.label = label
        self.comment = comment
        self.attributes = attributes
    }

    /// Returns a write that states what the declaration states, with a value, or nil if the value is to be removed.
    func changes(_ value: Value, _ expires: Expiry?, in lockbox: Lockbox) throws(LockboxError) -> ItemChanges?
    {
        try lockbox.archive(value, name).map { archived in
            var changes = changes(expires, in: lockbox)
            changes.value = archived
            return changes
        }
    }

    /// Returns a write that states what the declaration states, and no value.
    func changes(_ expires: Expiry? = nil, in lockbox: Lockbox) -> ItemChanges {
        ItemChanges(
            accessibility: accessibility,
            expires: expires ?? self.expires,
            label: label,
            comment: comment,
            attributes: attributes,
            modified: lockbox.now()
        )
    }

    func read(_ value: ArchivedValue?, in lockbox: Lockbox) throws(LockboxError) -> Value {
        guard let value else { return defaultValue }
        return try lockbox.unarchive(Value.self, value, name)
    }
}

extension LockboxKey: CustomStringConvertible, CustomReflectable {
    /// The type and the name, without the default value, which could be a secret.
    public var description: String { "LockboxKey<\(Value.self)>(\(String(reflecting: name)))" }

    /// The name, without the default value, which could be a secret.
    public var customMirror: Mirror { Mirror(self, children: ["name": name]) }
}
