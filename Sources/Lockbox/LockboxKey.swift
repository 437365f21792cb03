public import LockboxCore

/// A key with the type of its value, its default, and the settings of every write.
///
/// ```swift
/// extension LockboxKey<Session?> {
///     static var session: Self { Self("session", options: WriteOptions(accessibility: .afterFirstUnlock)) }
/// }
/// extension LockboxKey<Int> {
///     static var attempts: Self { Self("attempts", default: 0) }
/// }
///
/// try lockbox.archiveObject(session, forKey: .session)
/// let attempts = try lockbox[.attempts]
/// try lockbox.update(.attempts) { $0 += 1 }
/// ```
///
/// The default stands for an absent or expired item, and for nothing else: a locked or damaged item throws. A read never
/// stores it.
///
/// A write sets the options that the key declares, and those of the call, which come first.
public struct LockboxKey<Value: Codable & Sendable>: Sendable {
    /// The item's key: not empty, at most 4,096 bytes of UTF-8.
    public let name: String

    /// The value that stands for an absent or expired item.
    let defaultValue: Value

    /// The settings of each write of the item, unless the call says otherwise.
    let options: WriteOptions

    /// Creates a key for a value that always exists.
    ///
    /// - Parameters:
    ///   - name: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - defaultValue: The value that stands for an absent or expired item.
    ///   - options: The settings of each write of the item, unless the call says otherwise.
    @_disfavoredOverload  // the other one, if the value is optional
    public init(_ name: String, default defaultValue: Value, options: WriteOptions = WriteOptions()) {
        self.name = name
        self.defaultValue = defaultValue
        self.options = options
    }

    /// Creates a key for an optional value. Archiving `nil` removes the item.
    ///
    /// - Parameters:
    ///   - name: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - defaultValue: The value that stands for an absent or expired item.
    ///   - options: The settings of each write of the item, unless the call says otherwise.
    public init<Wrapped: Codable & Sendable>(
        _ name: String,
        default defaultValue: Wrapped? = nil,
        options: WriteOptions = WriteOptions()
    ) where Value == Wrapped? {
        self.name = name
        self.defaultValue = defaultValue
        self.options = options
    }

    func read(_ value: ArchivedValue?, in lockbox: Lockbox) throws(LockboxError) -> Value {
        guard let value else { return defaultValue }
        return try lockbox.unarchive(Value.self, value, key: name)
    }
}

// Calls that are often tried. The compiler refuses them with what to write, so none of the bodies runs.
extension LockboxKey {
    /// Only an optional value needs no default.
    @available(*, unavailable, message: "Give a default: LockboxKey(name, default: value).")
    @_disfavoredOverload
    public init(_ name: String, options: WriteOptions = WriteOptions()) { fatalError("unavailable") }

    /// Declare the class with the other options.
    @available(*, unavailable, message: "Write options: WriteOptions(accessibility: …).")
    @_disfavoredOverload
    public init(_ name: String, default: Value, accessibility: Accessibility) { fatalError("unavailable") }

    /// Declare the class with the other options.
    @available(*, unavailable, message: "Write options: WriteOptions(accessibility: …).")
    @_disfavoredOverload
    public init(_ name: String, accessibility: Accessibility) { fatalError("unavailable") }
}

// The same for calls with a typed key.
extension Lockbox {
    /// A typed key declares the class. The options of a call come first.
    @available(*, unavailable, message: "Write options: WriteOptions(accessibility: …).")
    public func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        accessibility: Accessibility
    ) throws { fatalError("unavailable") }

    /// A typed key declares the options of its updates.
    @available(
        *,
        unavailable,
        message: "Declare the options in the key, or call update(key.name, as:options:)."
    )
    public func update<Value>(
        _ key: LockboxKey<Value>,
        options: WriteOptions,
        _ change: (inout Value) throws -> Void
    ) throws { fatalError("unavailable") }
}

extension LockboxKey: Undescribed {
    /// The type and the name, without the default value, which could be a secret.
    package var summary: String { "LockboxKey<\(Value.self)>(\(String(reflecting: name)))" }
}

extension Lockbox {
    /// Returns the value for a key, or the key's default if there is no such item or it has expired.
    ///
    /// The same as `unarchiveObject(forKey:)`. To store a value, use `archiveObject(_:forKey:options:)`: Swift's
    /// subscripts cannot throw when they are set.
    ///
    /// - Parameter key: The key, with the type of the value and its default.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)`.
    @available(*, noasync, message: "Blocks the thread: call try await lockbox.unarchiveObject(forKey:).")
    public subscript<Value>(key: LockboxKey<Value>) -> Value {
        get throws { try unarchiveObject(forKey: key) }
    }

    /// Returns the value for a key, or the key's default if there is no such item or it has expired.
    ///
    /// - Parameter key: The key, with the type of the value and its default.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)`. A locked or damaged item never reads as the default.
    public func unarchiveObject<Value>(forKey key: LockboxKey<Value>) throws -> Value {
        try key.read(backend.value(for: itemKey(key.name), now: now()), in: self)
    }

    /// Stores a value.
    ///
    /// - Parameters:
    ///   - value: The value to store. `nil` removes the item, whatever the options, if this program can read it.
    ///   - key: The key. Its options count where the call's name nothing.
    ///   - options: The settings besides the value, and whether the write may overwrite or create an item.
    /// - Throws: Any error of `archiveObject(_:forKey:options:)` with a string.
    public func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        options: WriteOptions = WriteOptions()
    ) throws {
        try archiveObject(value, forKey: key.name, options: options.over(key.options))
    }

    /// Removes an item, which then reads as the key's default. Does nothing if it does not exist.
    ///
    /// - Parameter key: The key.
    /// - Throws: ``LockboxError``. The item may still exist.
    public func removeObject<Value>(forKey key: LockboxKey<Value>) throws {
        try removeObject(forKey: key.name)
    }

    /// Reads, changes and stores a value in one step. No other thread or process can change it in between.
    ///
    /// - Parameters:
    ///   - key: The key. An expiry that it declares is set again; otherwise the old one is kept.
    ///   - change: Changes the value, which is the key's default if there is no such item or it has expired. If
    ///     it is `nil` afterwards, the item is removed. **It may run more than once**: see `update(_:as:options:_:)`.
    /// - Returns: The value after the change.
    /// - Throws: Any error of `update(_:as:options:_:)`.
    @discardableResult
    public func update<Value>(_ key: LockboxKey<Value>, _ change: (inout Value) throws -> Void) throws
        -> Value
    {
        try update(itemKey(key.name), key.options, read: { try key.read($0, in: self) }, change)
    }

    /// Returns whether an item exists. Does not open its value.
    ///
    /// - Parameter key: The key.
    /// - Throws: Any error of `containsObject(forKey:)` with a string.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func containsObject<Value>(forKey key: LockboxKey<Value>) throws -> Bool {
        try containsObject(forKey: key.name)
    }

    /// Returns an item's attributes, or `nil` if there is no such item. Does not open its value.
    ///
    /// - Parameter key: The key.
    /// - Throws: Any error of `attributes(forKey:)` with a string.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func attributes<Value>(forKey key: LockboxKey<Value>) throws -> ItemAttributes? {
        try attributes(forKey: key.name)
    }

    /// Changes an item's attributes, but not its value. The options that the key declares are not set.
    ///
    /// - Parameters:
    ///   - options: The attributes to set. The policy does not count.
    ///   - key: The key.
    /// - Throws: Any error of `setAttributes(_:forKey:)` with a string.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func setAttributes<Value>(_ options: WriteOptions, forKey key: LockboxKey<Value>) throws {
        try setAttributes(options, forKey: key.name)
    }

    /// Moves an item to another key, with its attributes and dates.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key.
    ///   - policy: Whether to overwrite an item under the new key.
    /// - Throws: Any error of `moveObject(forKey:toKey:toPrefix:policy:)`.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func moveObject<Value>(
        forKey key: LockboxKey<Value>,
        toKey newKey: LockboxKey<Value>,
        policy: WritePolicy = .addOnly
    ) throws {
        try moveObject(forKey: key.name, toKey: newKey.name, policy: policy)
    }
}
