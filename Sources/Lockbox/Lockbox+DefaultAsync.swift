public import LockboxCore

extension Lockbox {
    /// Stores a value in the ``default`` lockbox, replacing the key's previous one. `nil` removes the item.
    ///
    /// The value is encoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public static func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        policy: WritePolicy = .replace
    ) async throws {
        try await `default`.archiveObject(
            value,
            forKey: key,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            attributes: attributes,
            policy: policy
        )
    }

    /// Returns the value for a key in the ``default`` lockbox, or `nil` if there is no such item.
    ///
    /// The value is decoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public static func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        try await `default`.unarchiveObject(type, forKey: key)
    }

    /// Returns the values for several keys in the ``default`` lockbox. Absent and expired items are left out.
    ///
    /// The values are decoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public static func unarchiveObjects<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKeys keys: some Sequence<String>
    ) async throws -> [String: Value] {
        try await `default`.unarchiveObjects(type, forKeys: keys)
    }

    /// Returns the value and the attributes for a key in the ``default`` lockbox, both from the same write.
    ///
    /// The value is decoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public static func unarchiveItem<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> UnarchivedItem<Value>? {
        try await `default`.unarchiveItem(type, forKey: key)
    }

    /// Reads, changes and stores a value in the ``default`` lockbox in one step.
    ///
    /// Runs on another thread, and calls `change` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public static func update<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type = Value.self,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        _ change: @escaping @Sendable (inout Value?) throws -> Void
    ) async throws -> Value? {
        try await `default`.update(
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

    /// Changes the attributes of an item of the ``default`` lockbox, and not its value.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func setAttributes(
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged
    ) async throws {
        try await `default`.setAttributes(
            forKey: key,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            attributes: attributes
        )
    }

    /// Returns the items of the ``default`` lockbox, and names those that cannot be read.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func list(
        matching pairs: [String: String] = [:],
        includingExpired: Bool = false
    ) async throws -> ItemList {
        try await `default`.list(matching: pairs, includingExpired: includingExpired)
    }

    /// Removes an item of the ``default`` lockbox that cannot be read.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func remove(_ item: UnreadableItem) async throws { try await `default`.remove(item) }

    /// Sets an item of the ``default`` lockbox aside that cannot be read. Returns where its bytes are now.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public static func quarantine(_ item: UnreadableItem) async throws -> String {
        try await `default`.quarantine(item)
    }

    /// Removes an item of the ``default`` lockbox. Does nothing if it does not exist.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func removeObject(forKey key: String) async throws {
        try await `default`.removeObject(forKey: key)
    }

    /// Returns whether an item exists in the ``default`` lockbox. Does not open its value.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func containsObject(forKey key: String) async throws -> Bool {
        try await `default`.containsObject(forKey: key)
    }

    /// Returns the attributes of an item of the ``default`` lockbox, or `nil` if there is no such item.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await `default`.attributes(forKey: key)
    }

    /// Moves an item of the ``default`` lockbox to another accessibility class, atomically.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await `default`.setAccessibility(accessibility, forKey: key)
    }

    /// Returns the keys of all items of the ``default`` lockbox, in no particular order.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func allKeys() async throws -> Set<String> {
        try await `default`.allKeys()
    }

    /// Returns the attributes of all items of the ``default`` lockbox, by key.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func allAttributes() async throws -> [String: ItemAttributes] {
        try await `default`.allAttributes()
    }

    /// Calls a closure with the key and the attributes of every item of the ``default``
    /// lockbox.
    ///
    /// Runs on another thread, and calls `unreadable` and `body` there. Canceling the task does not stop it. Parameters and
    /// errors are those of the synchronous form.
    public static func forEachItem(
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void = { throw $0.error },
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await `default`.forEachItem(unreadable: unreadable, body)
    }

    /// Removes all items with the prefix of the ``default`` lockbox. Other prefixes are not affected.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func removeAllObjects() async throws {
        try await `default`.removeAllObjects()
    }

    /// Removes the expired items of the ``default`` lockbox, and returns their number.
    ///
    /// Runs on another thread, and calls `unreadable` there. Canceling the task does not stop it. Parameters and errors are
    /// those of the synchronous form.
    @discardableResult
    public static func removeExpired(
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void = { _ in }
    ) async throws -> Int {
        try await `default`.removeExpired(unreadable: unreadable)
    }

    /// Writes and removes many items of the ``default`` lockbox, durably when it returns.
    ///
    /// `body` runs on the calling thread; the rest runs on another one. Canceling the task does not stop it. Parameters and
    /// errors are those of the synchronous form.
    public static func batch(_ body: (inout LockboxBatch) throws -> Void) async throws {
        try await `default`.batch(body)
    }

    /// Copies an item of the ``default`` lockbox to another key, with its attributes and dates.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func copyObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) async throws {
        try await `default`.copyObject(forKey: key, toKey: newKey, toPrefix: prefix, policy: policy)
    }

    /// Moves an item of the ``default`` lockbox to another key, with its attributes and dates.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func moveObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) async throws {
        try await `default`.moveObject(forKey: key, toKey: newKey, toPrefix: prefix, policy: policy)
    }

    /// Checks that the store of the ``default`` lockbox can be used: writes, reads and removes an item that no list shows.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func checkAccess(accessibility: Accessibility = .whenUnlocked) async throws {
        try await `default`.checkAccess(accessibility: accessibility)
    }
}
