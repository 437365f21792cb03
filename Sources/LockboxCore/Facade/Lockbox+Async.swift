public import LockboxPlatform

// Values are encoded and decoded on the caller's thread, so they need not be Sendable.
extension Lockbox {
    /// Stores a value, replacing the key's previous one. `nil` removes the item.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        policy: WritePolicy = .replace
    ) async throws {
        guard let value else { return try await removeObject(forKey: key) }
        let archived = try archive(value, key)
        try await offPool {
            let item = try StoredItem(
                key: itemKey(key),
                value: archived,
                accessibility: accessibility,
                modified: now(),
                expires: expires,
                label: label,
                comment: comment
            )
            try backend.write(item, policy: policy)
        }
    }

    /// Returns the value for a key, or `nil` if there is no such item.
    public func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        let archived = try await offPool { try backend.value(for: itemKey(key), now: now()) }
        return try archived.map { try unarchive(type, $0, key) }
    }

    /// Removes an item, even if it is locked or damaged. Does nothing if it does not exist.
    public func removeObject(forKey key: String) async throws {
        try await offPool { try removeObject(forKey: key) }
    }

    /// Returns whether an item exists. Does not open its value.
    public func containsObject(forKey key: String) async throws -> Bool {
        try await offPool { try containsObject(forKey: key) }
    }

    /// Returns an item's attributes, or `nil` if there is no such item. Does not open its value.
    public func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await offPool { try attributes(forKey: key) }
    }

    /// Moves an item to another accessibility class, atomically.
    public func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await offPool { try setAccessibility(accessibility, forKey: key) }
    }

    /// Returns the keys of all items with this prefix, in no particular order.
    public func allKeys() async throws -> Set<String> {
        try await offPool { try allKeys() }
    }

    /// Returns the attributes of all items with this prefix, by key.
    public func allAttributes() async throws -> [String: ItemAttributes] {
        try await offPool { try allAttributes() }
    }

    /// Calls a closure, on another thread, with the key and the attributes of every item with this prefix.
    public func forEachItem(
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await offPool { try forEachItem(body) }
    }

    /// Removes all items with this prefix, locked, damaged and expired ones included. Other prefixes are not
    /// affected.
    public func removeAllObjects() async throws {
        try await offPool { try removeAllObjects() }
    }

    /// Removes the expired items with this prefix, and returns their number.
    @discardableResult
    public func removeExpired() async throws -> Int {
        try await offPool { try removeExpired() }
    }
}
