public import LockboxCore
import LockboxMigration
public import LockboxPlatform
import LockboxSealed

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
