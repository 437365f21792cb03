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
