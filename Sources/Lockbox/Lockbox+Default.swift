public import LockboxCore
import LockboxMigration
public import LockboxPlatform
import LockboxSealed

extension Lockbox {
    /// A lockbox for one prefix, in this user's store, ``SealedBackend/default``. Nothing is read or written yet.
    ///
    /// - Parameters:
    ///   - keyPrefix: If nil, the bundle identifier on Apple's systems, else the environment's
    ///     `LOCKBOX_KEY_PREFIX`.
    ///   - coder: How values other than `Data` become bytes.
    ///   - now: The clock that expiry and dates go by.
    /// - Throws: ``LockboxError/missingKeyPrefix``, or ``LockboxError/invalidKey(reason:)`` for a prefix that
    ///   ``ItemKey`` refuses.
    public init(
        keyPrefix: String? = nil,
        coder: any ValueCoder = JSONValueCoder(),
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws(LockboxError) {
        try self.init(keyPrefix: keyPrefix, backend: EncryptedFileBackend.default, coder: coder, now: now)
    }

    private static let configured = Protected<Lockbox?>(nil)

    /// The lockbox that the static methods use: the one given to ``configure(keyPrefix:backend:coder:now:)``, or
    /// else `Lockbox()`.
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

    /// Sets the ``default``. To be called at the start of the program, before any static method; the last call
    /// counts.
    ///
    /// - Parameters:
    ///   - keyPrefix: If nil, the bundle identifier on Apple's systems, else the environment's `LOCKBOX_KEY_PREFIX`.
    ///   - backend: If nil, this user's store, ``SealedBackend/default``.
    ///   - coder: How values other than `Data` become bytes.
    ///   - now: The clock that expiry and dates go by.
    /// - Throws: As ``init(keyPrefix:backend:coder:now:)``. The ``default`` is then as it was.
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

    /// ``archiveObject(_:forKey:accessibility:expires:label:comment:policy:)-(Value?,_,_,_,_,_,_)`` on the ``default``.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        policy: WritePolicy = .replace
    ) throws {
        try `default`.archiveObject(
            value,
            forKey: key,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            policy: policy
        )
    }

    /// The value of `key` in the ``default``, or nil if there is no such item.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) throws -> Value? {
        try `default`.unarchiveObject(type, forKey: key)
    }

    /// Removes an item of the ``default``, if there is one.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func removeObject(forKey key: String) throws {
        try `default`.removeObject(forKey: key)
    }

    /// Whether the ``default`` has such an item.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func containsObject(forKey key: String) throws -> Bool {
        try `default`.containsObject(forKey: key)
    }

    /// What is known of an item of the ``default`` besides its value, or nil if there is no such item.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func attributes(forKey key: String) throws -> ItemAttributes? {
        try `default`.attributes(forKey: key)
    }

    /// Moves an item of the ``default`` to another class.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func setAccessibility(_ accessibility: Accessibility, forKey key: String) throws {
        try `default`.setAccessibility(accessibility, forKey: key)
    }

    /// The keys of the ``default``, in no order.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func allKeys() throws -> Set<String> {
        try `default`.allKeys()
    }

    /// The attributes of every item of the ``default``, by key.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func allAttributes() throws -> [String: ItemAttributes] {
        try `default`.allAttributes()
    }

    /// Hands the key and the attributes of every item of the ``default`` to `body`.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func forEachItem(_ body: (_ key: String, _ attributes: ItemAttributes) throws -> Void)
        throws
    {
        try `default`.forEachItem(body)
    }

    /// Removes every item of the ``default``'s prefix, and of no other.
    ///
    /// - Throws: As the instance method, and as ``default``.
    public static func removeAllObjects() throws {
        try `default`.removeAllObjects()
    }

    /// Removes the items of the ``default`` that have expired, and returns how many those were.
    ///
    /// - Throws: As the instance method, and as ``default``.
    @discardableResult
    public static func removeExpired() throws -> Int {
        try `default`.removeExpired()
    }
}
