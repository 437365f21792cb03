public import LockboxCore

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
