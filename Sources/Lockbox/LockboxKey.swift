public import LockboxCore

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

extension Lockbox {
    /// Returns the value for a key, or the key's default if there is no such item or it has expired.
    ///
    /// The same as `unarchiveObject(forKey:)`. To store a value, use `archiveObject(_:forKey:expires:policy:)`: Swift's
    /// subscripts cannot throw when they are set.
    ///
    /// - Parameter key: The key, with the type of the value and its default.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)`.
    public subscript<Value>(key: LockboxKey<Value>) -> Value {
        get throws { try unarchiveObject(forKey: key) }
    }

    /// Returns the value for a key, or the key's default if there is no such item or it has expired.
    ///
    /// - Parameter key: The key, with the type of the value and its default.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)`. A locked or damaged item never reads as the default.
    public func unarchiveObject<Value>(forKey key: LockboxKey<Value>) throws -> Value {
        try key.read(backend.value(for: itemKey(key.name), now: now()), in: self)
    }

    /// Stores a value, replacing the key's previous one.
    ///
    /// Attributes that the key does not declare keep their values: class, label, comment and searchable attributes. The
    /// expiry belongs to the value: with `.replace`, the new value never expires unless the key or `expires` says so. With
    /// `.updateOnly`, the old expiry is kept.
    ///
    /// - Parameters:
    ///   - value: The value to store. `nil` removes the item, whatever the policy, if this program can read it.
    ///   - key: The key. Every write sets the class, expiry and texts that it declares.
    ///   - expires: When the item expires. If `nil`, the key's own expiry.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    /// - Throws: Any error of
    ///   `archiveObject(_:forKey:accessibility:expires:label:comment:attributes:policy:)`.
    public func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        expires: Expiry? = nil,
        policy: WritePolicy = .replace
    ) throws {
        guard let changes = try key.changes(value, expires, in: self) else {
            return try removeByNil(key.name)
        }
        try changing().write(changes, to: itemKey(key.name), policy: policy)
    }

    /// Removes an item, which then reads as the key's default. Does nothing if it does not exist.
    ///
    /// - Parameter key: The key.
    /// - Throws: ``LockboxError``. The item may still exist.
    public func removeObject<Value>(forKey key: LockboxKey<Value>) throws {
        try removeObject(forKey: key.name)
    }

    /// Reads, changes and stores a value in one step. No other thread or process can change it in between.
    ///
    /// Attributes that the key does not declare keep their values, and so does the expiry. An expiry that the key declares
    /// is set again.
    ///
    /// - Parameters:
    ///   - key: The key. Every write sets the class, expiry and texts that it declares.
    ///   - change: Changes the value, which is the key's default if there is no such item or it has expired. If
    ///     it is `nil` afterwards, the item is removed. **It may run more than once**, if another writer comes
    ///     first; only the last result is stored. If it throws, the item does not change. It must not change items
    ///     with the same prefix: that throws ``LockboxError/invalidKey(reason:)``.
    /// - Returns: The value after the change.
    /// - Throws: Any error of `unarchiveObject(forKey:)` or `archiveObject(_:forKey:expires:policy:)`, and what `change`
    ///   throws.
    @discardableResult
    public func update<Value>(
        _ key: LockboxKey<Value>,
        _ change: (inout Value) throws -> Void
    ) throws -> Value {
        try update(
            itemKey(key.name),
            key.changes(in: self),
            read: { try key.read($0, in: self) },
            change
        )
    }
}

extension LockboxBatch {
    /// Adds a write to the batch.
    ///
    /// - Parameters:
    ///   - value: The value to store. It is encoded now. `nil` removes the item, whatever the policy, if this program can
    ///     read it when the batch is performed.
    ///   - key: The key. Every write sets the class, expiry and texts that it declares.
    ///   - expires: When the item expires. If `nil`, the key's own expiry.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    /// - Throws: ``LockboxError/invalidKey(reason:)``, ``LockboxError/encodingFailed(key:underlying:)`` or
    ///   ``LockboxError/valueTooLarge(size:limit:)``.
    public mutating func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        expires: Expiry? = nil,
        policy: WritePolicy = .replace
    ) throws(LockboxError) {
        guard let changes = try key.changes(value, expires, in: lockbox) else {
            return operations.append(try lockbox.removal(byNil: key.name))
        }
        operations.append(.write(changes, to: try lockbox.itemKey(key.name), policy: policy))
    }

    /// Adds a removal to the batch.
    ///
    /// - Parameter key: The key.
    /// - Throws: ``LockboxError/invalidKey(reason:)``.
    public mutating func removeObject<Value>(forKey key: LockboxKey<Value>) throws(LockboxError) {
        try removeObject(forKey: key.name)
    }
}

extension Lockbox {
    /// Returns the value for a key, or the key's default if there is no such item or it has expired.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func unarchiveObject<Value>(forKey key: LockboxKey<Value>) async throws -> Value {
        try await offPool { try unarchiveObject(forKey: key) }
    }

    /// Stores a value, replacing the key's previous one. `nil` removes the item.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        expires: Expiry? = nil,
        policy: WritePolicy = .replace
    ) async throws {
        try await offPool { try archiveObject(value, forKey: key, expires: expires, policy: policy) }
    }

    /// Removes an item, which then reads as the key's default. Does nothing if it does not exist.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func removeObject<Value>(forKey key: LockboxKey<Value>) async throws {
        try await offPool { try removeObject(forKey: key) }
    }

    /// Reads, changes and stores a value in one step.
    ///
    /// Runs on another thread, and calls `change` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func update<Value>(
        _ key: LockboxKey<Value>,
        _ change: @escaping @Sendable (inout Value) throws -> Void
    ) async throws -> Value {
        try await offPool { try update(key, change) }
    }
}
