public import LockboxCore
public import LockboxPlatform

extension Lockbox {
    /// Stores a value in the ``default`` lockbox, replacing the key's previous one. `nil` removes the item.
    public static func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        policy: WritePolicy = .replace
    ) async throws {
        try await `default`.archiveObject(
            value,
            forKey: key,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            policy: policy
        )
    }

    /// Returns the value for a key in the ``default`` lockbox, or `nil` if there is no such item.
    public static func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        try await `default`.unarchiveObject(type, forKey: key)
    }

    /// Removes an item of the ``default`` lockbox. Does nothing if it does not exist.
    public static func removeObject(forKey key: String) async throws {
        try await `default`.removeObject(forKey: key)
    }

    /// Returns whether an item exists in the ``default`` lockbox. Does not open its value.
    public static func containsObject(forKey key: String) async throws -> Bool {
        try await `default`.containsObject(forKey: key)
    }

    /// Returns the attributes of an item of the ``default`` lockbox, or `nil` if there is no such item.
    public static func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await `default`.attributes(forKey: key)
    }

    /// Moves an item of the ``default`` lockbox to another accessibility class, atomically.
    public static func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await `default`.setAccessibility(accessibility, forKey: key)
    }

    /// Returns the keys of all items of the ``default`` lockbox, in no particular order.
    public static func allKeys() async throws -> Set<String> {
        try await `default`.allKeys()
    }

    /// Returns the attributes of all items of the ``default`` lockbox, by key.
    public static func allAttributes() async throws -> [String: ItemAttributes] {
        try await `default`.allAttributes()
    }

    /// Calls a closure, on another thread, with the key and the attributes of every item of the ``default``
    /// lockbox.
    public static func forEachItem(
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await `default`.forEachItem(body)
    }

    /// Removes all items with the prefix of the ``default`` lockbox. Other prefixes are not affected.
    public static func removeAllObjects() async throws {
        try await `default`.removeAllObjects()
    }

    /// Removes the expired items of the ``default`` lockbox, and returns their number.
    @discardableResult
    public static func removeExpired() async throws -> Int {
        try await `default`.removeExpired()
    }
}
