public import LockboxCore

extension Lockbox {
    /// Returns the values for several keys in the ``default`` lockbox. Absent and expired items are left out.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - keys: The items' keys.
    /// - Throws: Any error of the instance method.
    public static func unarchiveObjects<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKeys keys: some Sequence<String>
    ) throws -> [String: Value] {
        try `default`.unarchiveObjects(type, forKeys: keys)
    }

    /// Returns the value and the attributes for a key in the ``default`` lockbox, both from the same write.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Returns: The value and the attributes, or `nil` if there is no such item or it has expired.
    /// - Throws: Any error of the instance method.
    public static func unarchiveItem<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) throws -> UnarchivedItem<Value>? {
        try `default`.unarchiveItem(type, forKey: key)
    }

    /// Reads, changes and stores a value in the ``default`` lockbox in one step. No other thread or process can
    /// change it in between.
    ///
    /// - Parameters:
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - type: The type of the value. Can be omitted if it can be inferred.
    ///   - accessibility: When the value can be read. If `nil`, the class of the existing item, or
    ///     ``Accessibility/whenUnlocked`` for a new one.
    ///   - expires: When the item expires.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - attributes: Texts by name that the item can be found by. Not for secrets.
    ///   - change: Changes the value, which is `nil` if there is no such item. **It may run more than once.**
    /// - Returns: The value that is stored now, or `nil` if the item was removed.
    /// - Throws: Any error of the instance method.
    @discardableResult
    public static func update<Value: Codable>(
        _ key: String,
        as type: Value.Type = Value.self,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        _ change: (inout Value?) throws -> Void
    ) throws -> Value? {
        try `default`.update(
            key,
            as: type,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            attributes: attributes,
            change
        )
    }

    /// Changes the attributes of an item of the ``default`` lockbox, but not its value.
    ///
    /// - Parameters:
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    ///   - expires: When the item expires.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - attributes: Texts by name that the item can be found by. Not for secrets.
    /// - Throws: Any error of the instance method.
    public static func setAttributes(
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged
    ) throws {
        try `default`.setAttributes(
            forKey: key,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            attributes: attributes
        )
    }

    /// Returns the attributes of the items of the ``default`` lockbox, and separately the items that cannot be read.
    /// Opens no value.
    ///
    /// - Parameters:
    ///   - pairs: Only items whose searchable attributes include all of these texts are listed.
    ///   - includingExpired: Whether to list items that have expired too.
    /// - Throws: Any error of the instance method.
    public static func list(
        matching pairs: [String: String] = [:],
        includingExpired: Bool = false
    ) throws -> ItemList {
        try `default`.list(matching: pairs, includingExpired: includingExpired)
    }

    /// Removes an item of the ``default`` lockbox that cannot be read.
    ///
    /// - Parameter item: The item, from ``ItemList/unreadable``.
    /// - Throws: Any error of the instance method.
    public static func remove(_ item: UnreadableItem) throws { try `default`.remove(item) }

    /// Sets aside an item of the ``default`` lockbox that cannot be read, and keeps its bytes.
    ///
    /// - Parameter item: The item, from ``ItemList/unreadable``.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: Any error of the instance method.
    @discardableResult
    public static func quarantine(_ item: UnreadableItem) throws -> String { try `default`.quarantine(item) }

    /// Writes and removes many items of the ``default`` lockbox, durably when it returns.
    ///
    /// - Parameter body: Adds the operations, each for another key.
    /// - Throws: Any error of the instance method.
    public static func batch(_ body: (inout LockboxBatch) throws -> Void) throws { try `default`.batch(body) }

    /// Copies an item of the ``default`` lockbox to another key, with its attributes and dates.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The key of the copy.
    ///   - prefix: The prefix of the copy. If `nil`, that of the ``default`` lockbox.
    ///   - policy: Whether to overwrite an item under the new key.
    /// - Throws: Any error of the instance method.
    public static func copyObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) throws {
        try `default`.copyObject(forKey: key, toKey: newKey, toPrefix: prefix, policy: policy)
    }

    /// Moves an item of the ``default`` lockbox to another key, with its attributes and dates.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key.
    ///   - prefix: The new prefix. If `nil`, that of the ``default`` lockbox.
    ///   - policy: Whether to overwrite an item under the new key.
    /// - Throws: Any error of the instance method.
    public static func moveObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) throws {
        try `default`.moveObject(forKey: key, toKey: newKey, toPrefix: prefix, policy: policy)
    }

    /// Checks that the store of the ``default`` lockbox can be used.
    ///
    /// - Parameter accessibility: The class of the item that is written, read and removed.
    /// - Throws: The reason why the store cannot be used.
    public static func checkAccess(accessibility: Accessibility = .whenUnlocked) throws {
        try `default`.checkAccess(accessibility: accessibility)
    }

    /// Returns the changes that any thread or process makes to the items of the ``default`` lockbox from now on.
    ///
    /// - Returns: A sequence for one loop.
    /// - Throws: Any error of the instance method.
    public static func changes() throws -> LockboxChanges { try `default`.changes() }

    /// Returns the changes that any thread or process makes to the items of the ``default`` lockbox from now on.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func changes() async throws -> LockboxChanges { try await `default`.changes() }
}
