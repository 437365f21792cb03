@_exported public import LockboxCore
public import LockboxPlatform
@_exported public import LockboxStore

extension Lockbox {
    /// Creates a lockbox for a key prefix in the user's store, ``SealedBackend/default``. Reads and writes
    /// nothing.
    ///
    /// - Parameters:
    ///   - keyPrefix: The namespace of the keys. If `nil`, the bundle identifier on Apple's systems, otherwise
    ///     the environment variable `LOCKBOX_KEY_PREFIX`.
    ///   - coder: Encodes and decodes all values except `Data`.
    ///   - now: Returns the current time, for dates and expiry.
    /// - Throws: ``LockboxError/missingKeyPrefix`` if there is no prefix, or
    ///   ``LockboxError/invalidKey(reason:)`` if it is empty, too long or reserved: see ``ItemKey``.
    public init(
        keyPrefix: String? = nil,
        coder: any ValueCoder = JSONValueCoder(),
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws(LockboxError) {
        try self.init(keyPrefix: keyPrefix, backend: EncryptedFileBackend.default, coder: coder, now: now)
    }

    private static let configured = Protected<Lockbox?>(nil)

    /// The lockbox that the static methods use: the one set with ``configure(keyPrefix:backend:coder:now:)``,
    /// otherwise `Lockbox()`.
    ///
    /// - Throws: ``LockboxError/missingKeyPrefix`` if it was not configured and there is neither a bundle
    ///   identifier nor `LOCKBOX_KEY_PREFIX`.
    public static var `default`: Lockbox {
        get throws(LockboxError) {
            try configured.withLock { lockbox throws(LockboxError) in
                if let lockbox { return lockbox }
                let made = try Lockbox()
                lockbox = made
                return made
            }
        }
    }

    /// Sets the ``default`` lockbox. Call it at the start of the program, before any static method. If it is
    /// called again, the last call counts.
    ///
    /// - Parameters:
    ///   - keyPrefix: The namespace of the keys. If `nil`, the bundle identifier on Apple's systems, otherwise
    ///     the environment variable `LOCKBOX_KEY_PREFIX`.
    ///   - backend: Stores the items. If `nil`, the user's store, ``SealedBackend/default``.
    ///   - coder: Encodes and decodes all values except `Data`.
    ///   - now: Returns the current time, for dates and expiry.
    /// - Throws: The errors of ``init(keyPrefix:backend:coder:now:)``. The ``default`` is then unchanged.
    public static func configure(
        keyPrefix: String? = nil,
        backend: (any LockboxBackend)? = nil,
        coder: any ValueCoder = JSONValueCoder(),
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws(LockboxError) {
        let lockbox = try Lockbox(
            keyPrefix: keyPrefix,
            backend: backend ?? EncryptedFileBackend.default,
            coder: coder,
            now: now
        )
        configured.withLock { $0 = lockbox }
    }

    /// Stores a value in the ``default`` lockbox, replacing the key's previous one. `nil` removes the item.
    ///
    /// See `archiveObject(_:forKey:accessibility:expires:label:comment:attributes:policy:)`.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        policy: WritePolicy = .replace
    ) throws {
        try `default`.archiveObject(
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
    /// - Throws: The errors of the instance method and of ``default``.
    public static func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) throws -> Value? {
        try `default`.unarchiveObject(type, forKey: key)
    }

    /// Removes an item of the ``default`` lockbox. Does nothing if it does not exist.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func removeObject(forKey key: String) throws {
        try `default`.removeObject(forKey: key)
    }

    /// Returns whether an item exists in the ``default`` lockbox. Does not open its value.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func containsObject(forKey key: String) throws -> Bool {
        try `default`.containsObject(forKey: key)
    }

    /// Returns the attributes of an item of the ``default`` lockbox, or `nil` if there is no such item.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func attributes(forKey key: String) throws -> ItemAttributes? {
        try `default`.attributes(forKey: key)
    }

    /// Moves an item of the ``default`` lockbox to another accessibility class, atomically.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func setAccessibility(_ accessibility: Accessibility, forKey key: String) throws {
        try `default`.setAccessibility(accessibility, forKey: key)
    }

    /// Returns the keys of all items of the ``default`` lockbox, in no particular order.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func allKeys() throws -> Set<String> {
        try `default`.allKeys()
    }

    /// Returns the attributes of all items of the ``default`` lockbox, by key.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func allAttributes() throws -> [String: ItemAttributes] {
        try `default`.allAttributes()
    }

    /// Calls a closure with the key and the attributes of every item of the ``default`` lockbox.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func forEachItem(
        unreadable: (UnreadableItem) throws -> Void = { throw $0.error },
        _ body: (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) throws {
        try `default`.forEachItem(unreadable: unreadable, body)
    }

    /// Removes all items with the prefix of the ``default`` lockbox. Other prefixes are not affected.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    public static func removeAllObjects() throws {
        try `default`.removeAllObjects()
    }

    /// Removes the expired items of the ``default`` lockbox, and returns their number.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    @discardableResult
    public static func removeExpired(unreadable: (UnreadableItem) throws -> Void = { _ in }) throws -> Int {
        try `default`.removeExpired(unreadable: unreadable)
    }
}

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

extension Lockbox {
    /// Migrates items from an older version of the app, or from another library, into the ``default`` lockbox.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    @discardableResult
    public static func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> MigrationReport {
        try `default`.migrate(migration, dryRun: dryRun, progress: progress)
    }

    /// Migrates items from an older version of the app, or from another library, into the ``default`` lockbox.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public static func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> MigrationReport {
        try await `default`.migrate(migration, dryRun: dryRun, progress: progress)
    }
}

extension Lockbox {
    /// Returns the value for a key in the ``default`` lockbox, or the key's default if there is no such item.
    ///
    /// - Parameter key: The key, with the type of the value and its default.
    /// - Throws: Any error of the instance method.
    public static func unarchiveObject<Value>(forKey key: LockboxKey<Value>) throws -> Value {
        try `default`.unarchiveObject(forKey: key)
    }

    /// Stores a value in the ``default`` lockbox, replacing the key's previous one.
    ///
    /// - Parameters:
    ///   - value: The value to store. `nil` removes the item, whatever the policy.
    ///   - key: The key. Every write sets the class, expiry and texts that it declares.
    ///   - expires: When the item expires. If `nil`, the key's own expiry.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    /// - Throws: Any error of the instance method.
    public static func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        expires: Expiry? = nil,
        policy: WritePolicy = .replace
    ) throws {
        try `default`.archiveObject(value, forKey: key, expires: expires, policy: policy)
    }

    /// Removes an item from the ``default`` lockbox, which then reads as the key's default.
    ///
    /// - Parameter key: The key.
    /// - Throws: Any error of the instance method.
    public static func removeObject<Value>(forKey key: LockboxKey<Value>) throws {
        try `default`.removeObject(forKey: key)
    }

    /// Reads, changes and stores a value in the ``default`` lockbox in one step. No other thread or process can
    /// change it in between.
    ///
    /// - Parameters:
    ///   - key: The key. Every write sets the class, expiry and texts that it declares.
    ///   - change: Changes the value, which is the key's default if there is no such item. **It may run more than
    ///     once.**
    /// - Returns: The value after the change.
    /// - Throws: Any error of the instance method.
    @discardableResult
    public static func update<Value>(
        _ key: LockboxKey<Value>,
        _ change: (inout Value) throws -> Void
    ) throws -> Value {
        try `default`.update(key, change)
    }

    // MARK: Async

    /// Returns the value for a key in the ``default`` lockbox, or the key's default if there is no such item.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func unarchiveObject<Value>(forKey key: LockboxKey<Value>) async throws -> Value {
        try await `default`.unarchiveObject(forKey: key)
    }

    /// Stores a value in the ``default`` lockbox, replacing the key's previous one. `nil` removes the item.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        expires: Expiry? = nil,
        policy: WritePolicy = .replace
    ) async throws {
        try await `default`.archiveObject(value, forKey: key, expires: expires, policy: policy)
    }

    /// Removes an item from the ``default`` lockbox, which then reads as the key's default.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public static func removeObject<Value>(forKey key: LockboxKey<Value>) async throws {
        try await `default`.removeObject(forKey: key)
    }

    /// Reads, changes and stores a value in the ``default`` lockbox in one step.
    ///
    /// Runs on another thread, and calls `change` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public static func update<Value>(
        _ key: LockboxKey<Value>,
        _ change: @escaping @Sendable (inout Value) throws -> Void
    ) async throws -> Value {
        try await `default`.update(key, change)
    }
}

extension LockboxItem {
    /// Creates a property for an item of the ``Lockbox/default`` lockbox. Reads nothing.
    ///
    /// - Parameter key: The key, with the type of the value and its default.
    public init(_ key: LockboxKey<Value>) {
        self.init(key, in: try Lockbox.default)
    }
}
