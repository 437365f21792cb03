public import LockboxCore
public import LockboxPlatform

extension Lockbox {
    /// Stores `value` in the ``default``, in place of what the key held before; `nil` removes the item.
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

    /// Returns the value of `key` in the ``default``, or nil if there is no such item.
    public static func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        try await `default`.unarchiveObject(type, forKey: key)
    }

    /// Removes an item of the ``default``, if there is one.
    public static func removeObject(forKey key: String) async throws {
        try await `default`.removeObject(forKey: key)
    }

    /// Returns whether the ``default`` has such an item, without opening its value.
    public static func containsObject(forKey key: String) async throws -> Bool {
        try await `default`.containsObject(forKey: key)
    }

    /// Returns what is known of an item of the ``default`` besides its value, or nil if there is no such item.
    public static func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await `default`.attributes(forKey: key)
    }

    /// Moves an item of the ``default`` to another class.
    public static func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await `default`.setAccessibility(accessibility, forKey: key)
    }

    /// Returns the keys of the ``default``, in no order.
    public static func allKeys() async throws -> Set<String> {
        try await `default`.allKeys()
    }

    /// Returns the attributes of every item of the ``default``, by key.
    public static func allAttributes() async throws -> [String: ItemAttributes] {
        try await `default`.allAttributes()
    }

    /// Hands the key and the attributes of every item of the ``default`` to `body`, which runs on another thread.
    public static func forEachItem(
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await `default`.forEachItem(body)
    }

    /// Removes every item of the ``default``'s prefix, and of no other.
    public static func removeAllObjects() async throws {
        try await `default`.removeAllObjects()
    }

    /// Removes the items of the ``default`` that have expired, and returns how many those were.
    @discardableResult
    public static func removeExpired() async throws -> Int {
        try await `default`.removeExpired()
    }
}
