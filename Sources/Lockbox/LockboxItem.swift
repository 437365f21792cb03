import LockboxCore

/// A property wrapper that reads an item at each use, and returns a `Result` so that no error is hidden.
///
/// ```swift
/// struct Settings {
///     @LockboxItem(.session) var session
///     @LockboxItem(.attempts) var attempts
/// }
///
/// let settings = Settings()
/// let attempts = try settings.attempts.get()
/// try settings.$attempts.set(attempts + 1)
/// ```
///
/// Swift has no property wrappers that throw. Nothing is cached.
@propertyWrapper
public struct LockboxItem<Value: Codable & Sendable>: Sendable {
    /// The key, with the type of the value and its default.
    public let key: LockboxKey<Value>

    private let lockbox: @Sendable () throws -> Lockbox

    /// Creates a property for an item. Reads nothing.
    ///
    /// - Parameters:
    ///   - key: The key, with the type of the value and its default.
    ///   - lockbox: Stores the item. If this expression throws, every use of the property reports that error.
    public init(_ key: LockboxKey<Value>, in lockbox: @autoclosure @escaping @Sendable () throws -> Lockbox) {
        self.key = key
        self.lockbox = lockbox
    }

    /// The value, the key's default if there is no such item, or the error of the read.
    public var wrappedValue: Result<Value, any Error> { Result { try value() } }

    /// The wrapper itself, whose methods read and change the item: `$name.value()`, `$name.set(_:)`, `$name.update(_:)`,
    /// `$name.remove()`.
    public var projectedValue: Self { self }

    /// Returns the value, or the key's default if there is no such item or it has expired.
    ///
    /// The same as the property's `get()`. In an `async` function it reads on another thread: `try await $name.value()`.
    ///
    /// - Throws: Any error of `unarchiveObject(forKey:)`. A locked or damaged item never reads as the default.
    public func value() throws -> Value { try lockbox()[key] }

    /// Stores a value. `nil` removes the item.
    ///
    /// - Parameter value: The new value.
    /// - Throws: Any error of `archiveObject(_:forKey:expires:policy:)`.
    public func set(_ value: Value) throws { try lockbox().archiveObject(value, forKey: key) }

    /// Reads, changes and stores the value in one step.
    ///
    /// - Parameter change: Changes the value. **It may run more than once.**
    /// - Returns: The value after the change.
    /// - Throws: Any error of `update(_:_:)`.
    @discardableResult
    public func update(_ change: (inout Value) throws -> Void) throws -> Value {
        try lockbox().update(key, change)
    }

    /// Removes the item, which then reads as the key's default.
    ///
    /// - Throws: ``LockboxError``. The item may still exist.
    public func remove() throws { try lockbox().removeObject(forKey: key) }
}

extension LockboxItem {
    /// Returns the value, or the key's default if there is no such item or it has expired.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func value() async throws -> Value { try await lockbox().unarchiveObject(forKey: key) }

    /// Stores a value. `nil` removes the item.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func set(_ value: Value) async throws {
        try await lockbox().archiveObject(value, forKey: key)
    }

    /// Reads, changes and stores the value in one step.
    ///
    /// Runs on another thread, and calls `change` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func update(_ change: @escaping @Sendable (inout Value) throws -> Void) async throws -> Value {
        try await lockbox().update(key, change)
    }

    /// Removes the item, which then reads as the key's default.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func remove() async throws { try await lockbox().removeObject(forKey: key) }
}

extension LockboxItem: CustomStringConvertible, CustomReflectable {
    /// The key, without the value.
    public var description: String { "LockboxItem(\(key))" }

    /// The key, without the value.
    public var customMirror: Mirror { Mirror(self, children: ["key": key]) }
}
