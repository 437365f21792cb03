public import LockboxPlatform

// Values are encoded and decoded by the caller, so they need not be Sendable.
extension Lockbox {
    /// Stores `value`, in place of what the key held before; `nil` removes the item.
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

    /// Returns the value of `key`, or nil if there is no such item.
    public func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        let archived = try await offPool { try backend.value(for: itemKey(key), now: now()) }
        return try archived.map { try unarchive(type, $0, key) }
    }

    /// Removes the item, if there is one; also one that is locked or damaged.
    public func removeObject(forKey key: String) async throws {
        try await offPool { try removeObject(forKey: key) }
    }

    /// Returns whether there is such an item, without opening its value.
    public func containsObject(forKey key: String) async throws -> Bool {
        try await offPool { try containsObject(forKey: key) }
    }

    /// Returns what is known of the item besides its value, or nil if there is no such item.
    public func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await offPool { try attributes(forKey: key) }
    }

    /// Moves the item to another class. At no instant is it absent, or under both.
    public func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await offPool { try setAccessibility(accessibility, forKey: key) }
    }

    /// Returns the keys of this prefix, in no order.
    public func allKeys() async throws -> Set<String> {
        try await offPool { try allKeys() }
    }

    /// Returns the attributes of every item of this prefix, by key.
    public func allAttributes() async throws -> [String: ItemAttributes] {
        try await offPool { try allAttributes() }
    }

    /// Hands the key and the attributes of every item of this prefix to `body`, which runs on another thread.
    public func forEachItem(
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await offPool { try forEachItem(body) }
    }

    /// Removes every item of this prefix, and of no other; also those that are locked, damaged or expired.
    public func removeAllObjects() async throws {
        try await offPool { try removeAllObjects() }
    }

    /// Removes the items of this prefix that have expired, and returns how many those were.
    @discardableResult
    public func removeExpired() async throws -> Int {
        try await offPool { try removeExpired() }
    }
}
