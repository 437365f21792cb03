public import LockboxPlatform

/// A keychain for every Swift program: archives Codable values under prefixed keys and gives them back.
///
/// ```swift
/// let lockbox = try Lockbox(keyPrefix: "com.example.app")
/// try lockbox.archiveObject(session, forKey: "session", accessibility: .afterFirstUnlock)
/// let session = try lockbox.unarchiveObject(Session.self, forKey: "session")
/// ```
///
/// Every method exists as a static one too, on the process-wide ``default``. A `Lockbox` is a small value: make
/// as many as there are prefixes, and share the backend.
///
/// Every method throws ``LockboxError``, and whatever else a backend of the app's own throws. These any call on the
/// encrypted store can throw, and the methods below name only what comes on top:
///
/// - ``LockboxError/invalidKey(reason:)`` for a key that ``ItemKey`` refuses;
/// - ``LockboxError/storageFailure(operation:path:errno:)`` if a system call failed;
/// - ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)`` or
///   ``LockboxError/unsupportedVersion(record:version:)`` if the keybag or an item that has to be read cannot be opened;
/// - ``LockboxError/missing(record:)`` if the keybag or the device key is gone;
/// - ``LockboxError/deviceKeyMismatch(path:)``, ``LockboxError/invalidDeviceKey(source:reason:)`` and
///   ``LockboxError/unsafePermissions(path:reason:)``.
public struct Lockbox: Sendable {
    /// The namespace of this program's keys; by default its bundle identifier.
    public let keyPrefix: String

    /// Where the items are.
    public let backend: any LockboxBackend

    /// Tells lockboxes apart whose backend is neither an object nor `Equatable`.
    let original: Original?
    let coder: any ValueCoder
    package let now: @Sendable () -> Date

    /// A lockbox for one prefix. Nothing is read or written yet.
    ///
    /// - Parameters:
    ///   - keyPrefix: If nil, the bundle identifier on Apple's systems, else the environment's
    ///     `LOCKBOX_KEY_PREFIX`.
    ///   - backend: Where the items are.
    ///   - coder: How values other than `Data` become bytes.
    ///   - now: The clock that expiry and dates go by.
    /// - Throws: ``LockboxError/missingKeyPrefix``, or ``LockboxError/invalidKey(reason:)`` for a prefix that
    ///   ``ItemKey`` refuses.
    public init(
        keyPrefix: String? = nil,
        backend: any LockboxBackend,
        coder: any ValueCoder = JSONValueCoder(),
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws(LockboxError) {
        guard let keyPrefix = keyPrefix ?? Self.programIdentifier else { throw LockboxError.missingKeyPrefix }
        try ItemKey.checkPrefix(keyPrefix)
        self.keyPrefix = keyPrefix
        self.backend = backend
        original = type(of: backend) is AnyClass ? nil : Original()
        self.coder = coder
        self.now = now
    }

    // MARK: The two verbs

    /// Stores `value`, in place of what the key held before.
    ///
    /// - Parameters:
    ///   - value: `nil` removes the item, whatever the policy.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    ///   - expires: From then on the item reads as absent. `nil`: never.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - policy: What to do if the key is taken, or is not.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, as the policy says;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if this class, or the class of the item that is there, is locked;
    ///   ``LockboxError/passcodeNotSet`` if the class needs a passcode;
    ///   ``LockboxError/encodingFailed(key:underlying:)``; ``LockboxError/valueTooLarge(size:limit:)`` over
    ///   ``ArchivedValue/maximumSize``; ``LockboxError/invalidAttribute(name:reason:)``. The item is then as it was before.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        policy: WritePolicy = .replace
    ) throws {
        guard let value else { return try removeObject(forKey: key) }
        let item = try StoredItem(
            key: itemKey(key),
            value: archive(value, key),
            accessibility: accessibility,
            modified: now(),
            expires: expires,
            label: label,
            comment: comment
        )
        try backend.write(item, policy: policy)
    }

    /// The value of `key`, or nil if there is no such item.
    ///
    /// - Parameters:
    ///   - type: The type that was archived; may be left out where it can be inferred.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    /// - Returns: The value; nil if there is no such item, or if it has expired.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item's class is locked;
    ///   ``LockboxError/decodingFailed(key:type:underlying:)`` or ``LockboxError/typeMismatch(key:stored:type:)`` if the item
    ///   holds another type. The item stays as it is.
    public func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) throws -> Value? {
        try backend.value(for: itemKey(key), now: now()).map { try unarchive(type, $0, key) }
    }

    // MARK: One item

    /// Removes the item, if there is one; also one that is locked or damaged.
    ///
    /// - Parameter key: Not empty; at most 4,096 bytes of UTF-8.
    /// - Throws: ``LockboxError``. The item may then be there still.
    public func removeObject(forKey key: String) throws {
        try backend.remove(itemKey(key))
    }

    /// Whether there is such an item. Does not open its value.
    ///
    /// - Parameter key: Not empty; at most 4,096 bytes of UTF-8.
    /// - Returns: true also for an item that is locked; false for one that has expired.
    /// - Throws: ``LockboxError``, also if the item is damaged.
    public func containsObject(forKey key: String) throws -> Bool {
        try attributes(forKey: key) != nil
    }

    /// What is known of the item besides its value, or nil if there is no such item.
    ///
    /// - Parameter key: Not empty; at most 4,096 bytes of UTF-8.
    /// - Returns: The attributes, also of an item that is locked; nil for one that has expired.
    /// - Throws: ``LockboxError``, also if the item is damaged.
    public func attributes(forKey key: String) throws -> ItemAttributes? {
        try backend.attributes(for: itemKey(key), now: now())
    }

    /// Moves the item to another class. At no instant is it absent, or under both.
    ///
    /// - Parameters:
    ///   - accessibility: The class that it is to have.
    ///   - key: Not empty; at most 4,096 bytes of UTF-8.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no such item;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if one of the two classes is locked; ``LockboxError/passcodeNotSet`` if the
    ///   new one needs a passcode. The item stays as it is.
    public func setAccessibility(_ accessibility: Accessibility, forKey key: String) throws {
        try backend.setAccessibility(accessibility, for: itemKey(key), now: now())
    }

    // MARK: All items of this prefix

    /// The keys of this prefix, in no order.
    ///
    /// - Returns: The keys of the items that have not expired, locked ones too.
    /// - Throws: ``LockboxError``, also if one of the items is damaged.
    public func allKeys() throws -> Set<String> {
        Set(try backend.attributes(prefix: keyPrefix, now: now()).keys.map(\.key))
    }

    /// The attributes of every item of this prefix, by key.
    ///
    /// - Returns: Those of the items that have not expired, locked ones too.
    /// - Throws: ``LockboxError``, also if one of the items is damaged.
    public func allAttributes() throws -> [String: ItemAttributes] {
        let all = try backend.attributes(prefix: keyPrefix, now: now())
        return Dictionary(all.map { ($0.key.key, $0.value) }) { first, _ in first }
    }

    /// Hands the key and the attributes of every item of this prefix to `body`. For prefixes with very many items: what
    /// `allAttributes()` returns takes some 470 MB for a million of them, this some 120 MB while it runs.
    ///
    /// - Parameter body: Is called with one item after the other, in no order: items that have not expired, locked ones too. It
    ///   may use this instance. What it throws is thrown on, and ends the list.
    /// - Throws: ``LockboxError``, also if one of the items is damaged.
    public func forEachItem(_ body: (_ key: String, _ attributes: ItemAttributes) throws -> Void) throws {
        try backend.forEachItem(prefix: keyPrefix, now: now()) { try body($0.key, $1) }
    }

    /// Removes every item of this prefix, and of no other; also those that are locked, damaged or expired.
    ///
    /// - Throws: ``LockboxError``. Some of the items may then have been removed.
    public func removeAllObjects() throws {
        try backend.removeAll(prefix: keyPrefix)
    }

    /// Removes the items of this prefix that have expired, which read as absent already. Damaged ones stay: when they
    /// expire is not known.
    ///
    /// - Returns: How many those were.
    /// - Throws: ``LockboxError``. Some of the items may then have been removed.
    @discardableResult
    public func removeExpired() throws -> Int {
        try backend.removeExpired(prefix: keyPrefix, now: now())
    }
}

// MARK: Codable <-> bytes

extension Lockbox {
    package func itemKey(_ key: String) throws(LockboxError) -> ItemKey {
        try ItemKey(prefix: keyPrefix, key: key)
    }

    package func archive<Value: Encodable>(_ value: Value, _ key: String) throws -> ArchivedValue {
        if Value.self == Data.self, let data = value as? Data {
            return try ArchivedValue(data: data, format: .data)
        }
        let data: Data
        do { data = try coder.encode(value) } catch {
            throw LockboxError.encodingFailed(key: key, underlying: error)
        }
        return try ArchivedValue(data: data, format: coder.format)
    }

    package func unarchive<Value: Decodable>(_ type: Value.Type, _ value: ArchivedValue, _ key: String) throws
        -> Value
    {
        let format = Value.self == Data.self ? .data : coder.format
        guard value.format == format else {
            throw LockboxError.typeMismatch(key: key, stored: value.format, type: "\(type)")
        }
        if let data = value.data as? Value, format == .data { return data }
        do { return try coder.decode(type, from: value.data) } catch {
            throw LockboxError.decodingFailed(key: key, type: "\(type)", underlying: error)
        }
    }

    private static var programIdentifier: String? {
        bundleIdentifier ?? Environment["LOCKBOX_KEY_PREFIX"]
    }
}
