extension Lockbox {
    /// Returns the value for a key, or the key's default if there is no such item or it has expired.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func unarchiveObject<Value>(forKey key: LockboxKey<Value>) async throws -> Value {
        try await offPool { try unarchiveObject(forKey: key) }
    }

    /// Stores a value, replacing the key's previous one. `nil` removes the item.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        expires: Expiry? = nil,
        policy: WritePolicy = .replace
    ) async throws {
        try await offPool { try archiveObject(value, forKey: key, expires: expires, policy: policy) }
    }

    /// Removes an item, which then reads as the key's default. Does nothing if it does not exist.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func removeObject<Value>(forKey key: LockboxKey<Value>) async throws {
        try await offPool { try removeObject(forKey: key) }
    }

    /// Reads, changes and stores a value in one step.
    ///
    /// Runs on another thread, and calls `change` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func update<Value>(
        _ key: LockboxKey<Value>,
        _ change: @escaping @Sendable (inout Value) throws -> Void
    ) async throws -> Value {
        try await offPool { try update(key, change) }
    }
}
