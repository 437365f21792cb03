public import LockboxCore

// Values for keys that are strings are encoded and decoded on the caller's thread, so they need not be Sendable.
extension Lockbox {
    /// Runs calls of this lockbox on another thread, so that they do not block Swift's cooperative pool. Canceling the task ends a
    /// wait for another writer's lock, and stops nothing else.
    ///
    /// ```swift
    /// let keys = try await lockbox.async { try $0.allKeys() }
    /// ```
    ///
    /// - Parameter body: Calls this lockbox. It runs on the other thread.
    /// - Returns: The result of `body`.
    /// - Throws: The errors of `body`.
    public func async<Result: Sendable>(_ body: @escaping @Sendable (Lockbox) throws -> Result) async throws
        -> Result
    {
        try await offPool { try body(self) }
    }

    /// Stores a value, without blocking the thread. Parameters and errors are those of the synchronous form.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) async throws {
        try await archiveObject(value, forKey: key, options: WriteOptions(accessibility: accessibility))
    }

    /// Stores a value, without blocking the thread. Parameters and errors are those of the synchronous form.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        options: WriteOptions
    ) async throws {
        let archived = try archive(value, key)
        try await offPool { try perform(operation(archived, key, options: options)) }
    }

    /// Returns the value for a key, without blocking the thread. Parameters and errors are those of the synchronous form.
    public func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) async throws -> Value? {
        let archived = try await offPool(reading: true) { try backend.value(for: itemKey(key), now: now()) }
        return try archived.map { try unarchive(type, $0, key: key) }
    }

    /// Removes an item, without blocking the thread. Parameters and errors are those of the synchronous form.
    public func removeObject(forKey key: String) async throws {
        try await offPool { try removeObject(forKey: key) }
    }

    /// Reads, changes and stores a value in one step, without blocking the thread. Calls `change` on another one. Parameters and
    /// errors are those of the synchronous form.
    @discardableResult
    public func update<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type = Value.self,
        options: WriteOptions = WriteOptions(),
        _ change: @escaping @Sendable (inout Value?) throws -> Void
    ) async throws -> Value? {
        try await offPool { try update(key, as: type, options: options, change) }
    }

    /// Stores a value, without blocking the thread. Parameters and errors are those of the synchronous form.
    public func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        options: WriteOptions = WriteOptions()
    ) async throws {
        try await offPool { try archiveObject(value, forKey: key, options: options) }
    }

    /// Returns the value for a key, or the key's default, without blocking the thread. Parameters and errors are those of the
    /// synchronous form.
    public func unarchiveObject<Value>(forKey key: LockboxKey<Value>) async throws -> Value {
        try await offPool(reading: true) { try unarchiveObject(forKey: key) }
    }

    /// Removes an item, without blocking the thread. Parameters and errors are those of the synchronous form.
    public func removeObject<Value>(forKey key: LockboxKey<Value>) async throws {
        try await offPool { try removeObject(forKey: key) }
    }

    /// Reads, changes and stores a value in one step, without blocking the thread. Calls `change` on another one. Parameters and
    /// errors are those of the synchronous form.
    @discardableResult
    public func update<Value>(
        _ key: LockboxKey<Value>,
        _ change: @escaping @Sendable (inout Value) throws -> Void
    ) async throws -> Value {
        try await offPool { try update(key, change) }
    }
}
