public import LockboxCore

// Values are encoded and decoded on the caller's thread, so they need not be Sendable.
extension Lockbox {
    /// Stores a value, replacing the key's previous one. `nil` removes the item, if this program can read it.
    ///
    /// The value is encoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        policy: WritePolicy = .replace
    ) async throws {
        guard let archived = try archive(value, key) else {
            return try await offPool { try removeByNil(key) }
        }
        try await offPool {
            let changes = ItemChanges(
                value: archived,
                accessibility: accessibility,
                expires: expires,
                label: label,
                comment: comment,
                attributes: attributes,
                modified: now()
            )
            try backend.write(changes, to: itemKey(key), policy: policy)
        }
    }

    /// Returns the value for a key, or `nil` if there is no such item.
    ///
    /// The value is decoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        let archived = try await offPool { try backend.value(for: itemKey(key), now: now()) }
        return try archived.map { try unarchive(type, $0, key) }
    }

    /// Returns the values for several keys. Absent and expired items are left out.
    ///
    /// The values are decoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public func unarchiveObjects<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKeys keys: some Sequence<String>
    ) async throws -> [String: Value] {
        let keys = Array(keys)
        let archived = try await offPool {
            try backend.values(for: keys.map { try itemKey($0) }, now: now())
        }
        return try decode(type, archived)
    }

    /// Returns the value and the attributes for a key, both from the same write, or `nil` if there is no such
    /// item.
    ///
    /// The value is decoded on the calling thread; the rest runs on another one. Canceling the task does not stop it.
    /// Parameters and errors are those of the synchronous form.
    public func unarchiveItem<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> UnarchivedItem<Value>? {
        let item = try await offPool { try backend.item(for: itemKey(key), now: now()) }
        return try item.map { item in
            UnarchivedItem(value: try unarchive(type, item.value, key), attributes: item.attributes)
        }
    }

    /// Returns the values and the attributes of the items with this prefix that have some searchable attributes.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func unarchiveItems<Value: Decodable & Sendable>(
        _ type: Value.Type = Value.self,
        matching pairs: [String: String],
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void = { throw $0.error }
    ) async throws -> [String: UnarchivedItem<Value>] {
        try await offPool { try unarchiveItems(type, matching: pairs, unreadable: unreadable) }
    }

    /// Removes the items with this prefix that have some searchable attributes, and returns their number.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public func removeObjects(
        matching pairs: [String: String],
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void = { throw $0.error }
    ) async throws -> Int {
        try await offPool { try removeObjects(matching: pairs, unreadable: unreadable) }
    }

    /// Reads, changes and stores a value in one step.
    ///
    /// Runs on another thread, and calls `change` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func update<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type = Value.self,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        _ change: @escaping @Sendable (inout Value?) throws -> Void
    ) async throws -> Value? {
        try await offPool {
            try update(
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
    }

    /// Changes an item's attributes, and not its value.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func setAttributes(
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged
    ) async throws {
        try await offPool {
            try setAttributes(
                forKey: key,
                accessibility: accessibility,
                expires: expires,
                label: label,
                comment: comment,
                attributes: attributes
            )
        }
    }

    /// Returns the items with this prefix, and names those that cannot be read. No value is opened.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func list(
        matching pairs: [String: String] = [:],
        includingExpired: Bool = false
    ) async throws -> ItemList {
        try await offPool { try list(matching: pairs, includingExpired: includingExpired) }
    }

    /// Removes an item that cannot be read.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func remove(_ item: UnreadableItem) async throws { try await offPool { try remove(item) } }

    /// Sets an item aside that cannot be read. Returns where its bytes are now.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    @discardableResult
    public func quarantine(_ item: UnreadableItem) async throws -> String {
        try await offPool { try quarantine(item) }
    }

    /// Removes an item, even if it is locked or damaged. Does nothing if it does not exist.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func removeObject(forKey key: String) async throws {
        try await offPool { try removeObject(forKey: key) }
    }

    /// Returns whether an item exists. Does not open its value.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func containsObject(forKey key: String) async throws -> Bool {
        try await offPool { try containsObject(forKey: key) }
    }

    /// Returns an item's attributes, or `nil` if there is no such item. Does not open its value.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func attributes(forKey key: String) async throws -> ItemAttributes? {
        try await offPool { try attributes(forKey: key) }
    }

    /// Moves an item to another accessibility class, atomically.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func setAccessibility(_ accessibility: Accessibility, forKey key: String) async throws {
        try await offPool { try setAccessibility(accessibility, forKey: key) }
    }

    /// Returns the keys of all items with this prefix, in no particular order.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func allKeys() async throws -> Set<String> {
        try await offPool { try allKeys() }
    }

    /// Returns the attributes of all items with this prefix, by key.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func allAttributes() async throws -> [String: ItemAttributes] {
        try await offPool { try allAttributes() }
    }

    /// Calls a closure with the key and the attributes of every item with this prefix.
    ///
    /// Runs on another thread, and calls `unreadable` and `body` there. Canceling the task does not stop it. Parameters and
    /// errors are those of the synchronous form.
    public func forEachItem(
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void = { throw $0.error },
        _ body: @escaping @Sendable (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) async throws {
        try await offPool { try forEachItem(unreadable: unreadable, body) }
    }

    /// Removes all items with this prefix, locked, damaged and expired ones included. Other prefixes are not
    /// affected.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func removeAllObjects() async throws {
        try await offPool { try removeAllObjects() }
    }

    /// Removes the expired items with this prefix, and returns their number.
    ///
    /// Runs on another thread, and calls `unreadable` there. Canceling the task does not stop it. Parameters and errors are
    /// those of the synchronous form.
    @discardableResult
    public func removeExpired(
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void = { _ in }
    ) async throws -> Int {
        try await offPool { try removeExpired(unreadable: unreadable) }
    }

    /// Writes and removes many items in one call. The changes are durable when it returns.
    ///
    /// `body` runs on the calling thread; the rest runs on another one. Canceling the task does not stop it. Parameters and
    /// errors are those of the synchronous form.
    public func batch(_ body: (inout LockboxBatch) throws -> Void) async throws {
        var batch = LockboxBatch(self)
        try body(&batch)
        let operations = batch.operations
        try await offPool { try backend.apply(operations) }
    }

    /// Copies an item to another key, with its attributes and dates.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func copyObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) async throws {
        try await offPool { try copyObject(forKey: key, toKey: newKey, toPrefix: prefix, policy: policy) }
    }

    /// Moves an item to another key, with its attributes and dates.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func moveObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) async throws {
        try await offPool { try moveObject(forKey: key, toKey: newKey, toPrefix: prefix, policy: policy) }
    }

    /// Checks that the store can be used: writes, reads and removes an item that no list shows.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func checkAccess(accessibility: Accessibility = .whenUnlocked) async throws {
        try await offPool { try checkAccess(accessibility: accessibility) }
    }
}
