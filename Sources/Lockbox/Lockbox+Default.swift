@_exported public import LockboxBackup
@_exported public import LockboxCore
public import LockboxPlatform
@_exported public import LockboxStore

extension Lockbox {
    private static let configured = Protected<Lockbox?>(nil)

    /// The lockbox of the whole process, which the static methods use: the one set with
    /// ``configure(keyPrefix:backend:coder:now:)``, otherwise `Lockbox()`.
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
        coder: (any ValueCoder)? = nil,
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws(LockboxError) {
        let lockbox = try Lockbox(
            keyPrefix: keyPrefix,
            backend: backend,
            coder: coder,
            now: now
        )
        configured.withLock { $0 = lockbox }
    }

    /// Stores a value in the ``default`` lockbox, replacing the key's previous one. `nil` removes the item.
    ///
    /// - Parameters:
    ///   - value: The value to store.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    /// - Throws: Any error of the instance method and of ``default``.
    @available(*, noasync, message: "Blocks the thread: call try await Lockbox.default.archiveObject.")
    public static func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) throws {
        try `default`.archiveObject(value, forKey: key, accessibility: accessibility)
    }

    /// Returns the value for a key in the ``default`` lockbox, or `nil` if there is no such item.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Throws: Any error of the instance method and of ``default``.
    @available(*, noasync, message: "Blocks the thread: call try await Lockbox.default.unarchiveObject.")
    public static func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) throws -> Value? {
        try `default`.unarchiveObject(type, forKey: key)
    }

    /// Removes an item of the ``default`` lockbox. Does nothing if it does not exist.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Throws: Any error of the instance method and of ``default``.
    @available(*, noasync, message: "Blocks the thread: call try await Lockbox.default.removeObject.")
    public static func removeObject(forKey key: String) throws {
        try `default`.removeObject(forKey: key)
    }
}
