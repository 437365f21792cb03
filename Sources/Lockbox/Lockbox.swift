@_spi(Extensions) public import LockboxCore
public import LockboxPlatform
import LockboxStore

/// A keychain for every Swift program: archives Codable values under namespaced keys.
///
/// ```swift
/// let lockbox = try Lockbox(keyPrefix: "com.example.app")
/// try lockbox.archiveObject(session, forKey: "session", accessibility: .afterFirstUnlock)
/// let session = try lockbox.unarchiveObject(Session.self, forKey: "session")
/// ```
///
/// A `Lockbox` is a small value: create one for each prefix, and share the backend. ``default`` is one for the whole process.
///
/// Calls block the thread. In an `async` function, archiving, reading, removing and updating an item run on another thread.
/// Canceling the task ends a wait for another writer's lock, and stops nothing else. Every other call compiles there only in
/// ``async(_:)``.
///
/// Every method throws ``LockboxError``, and any other error that an app's own backend throws. The methods list
/// only their specific errors. On the encrypted store, every method can also throw:
///
/// - ``LockboxError/invalidKey(reason:)`` if the key is empty or too long;
/// - ``LockboxError/storageFailure(operation:path:errno:explanation:)`` if a system call fails;
/// - ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)`` or
///   ``LockboxError/unsupportedVersion(record:version:)`` if the keybag or an item cannot be opened;
/// - ``LockboxError/missing(record:)`` if the keybag or the device key is missing;
/// - ``LockboxError/deviceKeyMismatch(source:)`` or ``LockboxError/invalidDeviceKey(source:reason:)`` if the
///   device key cannot be used;
/// - ``LockboxError/rolledBack(record:reason:)`` if the keybag is older than one seen before, or an item is newer than
///   the keybag;
/// - ``LockboxError/requirementNotMet(record:reason:)`` if the store or the item is not what the program requires;
/// - ``LockboxError/unsafePermissions(path:reason:)`` if others could read or change the store;
/// - ``LockboxError/unreadable(record:reason:)`` or ``LockboxError/readOnly(location:reason:)`` if this process may not
///   read a record, the disk cannot, or this process may not write to the store;
/// - ``LockboxError/lockTimeout(location:)`` if another writer holds a lock for too long and makes no progress;
/// - ``LockboxError/storeReplaced(location:)`` if the store was moved or replaced while it was open, or is another
///   one than this user has unlocked here;
/// - ``LockboxError/conflict(record:)`` if other writers changed the same record again and again, or during a move;
/// - ``LockboxError/outcomeUnknown(record:reason:wasMade:)`` if a power cut may undo a change, because the disk could not be
///   synchronized, or if the connection to a cluster failed during the change. A cluster can also throw
///   ``LockboxError/notReachable(endpoint:reason:)`` and ``LockboxError/accessDenied(endpoint:reason:)``.
public struct Lockbox: Sendable {
    /// The namespace of the keys. By default the bundle identifier on Apple's systems, otherwise `LOCKBOX_KEY_PREFIX`.
    public let keyPrefix: String

    /// Stores the items.
    public let backend: any LockboxBackend

    let coder: any ValueCoder
    /// Returns the current time.
    @_spi(Extensions)
    public let now: @Sendable () -> Date

    /// Creates a lockbox for a key prefix. Reads and writes nothing.
    ///
    /// - Parameters:
    ///   - keyPrefix: The namespace of the keys. If `nil`, the bundle identifier on Apple's systems, otherwise
    ///     the environment variable `LOCKBOX_KEY_PREFIX`.
    ///   - backend: Stores the items. If `nil`, the user's store, ``SealedBackend/default``.
    ///   - coder: Encodes and decodes all values except `Data`. If `nil`, JSON.
    ///   - now: Returns the current time, for dates and expiry.
    /// - Throws: ``LockboxError/missingKeyPrefix`` if there is no prefix, or
    ///   ``LockboxError/invalidKey(reason:)`` if it is empty, too long or reserved: see ``ItemKey``; or if one from the environment
    ///   was to be replaced, such as `$NAME`, has quotes around it, a control character, or a space at an end.
    public init(
        keyPrefix: String? = nil,
        backend: (any LockboxBackend)? = nil,
        coder: (any ValueCoder)? = nil,
        now: @escaping @Sendable () -> Date = { Date() }
    ) throws(LockboxError) {
        var prefix = keyPrefix ?? bundleIdentifier
        if prefix == nil {
            prefix = try Environment["LOCKBOX_KEY_PREFIX"]
            try prefix.map(ItemKey.checkIsWrittenOut)
        }
        guard let keyPrefix = prefix else { throw LockboxError.missingKeyPrefix }
        try ItemKey.checkPrefix(keyPrefix)
        self.keyPrefix = keyPrefix
        self.backend = backend ?? EncryptedFileBackend.default
        self.coder = coder ?? JSONValueCoder()
        self.now = now
    }

    // MARK: Storing and reading

    /// Stores a value in place of the key's previous one. Keeps label, comment and attributes, and removes the expiry.
    ///
    /// - Parameters:
    ///   - value: The value to store. `nil` removes the item, if this program can read it.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read. If `nil`, the class of the existing item, or
    ///     ``Accessibility/whenUnlocked`` for a new one.
    /// - Throws: Any error of `archiveObject(_:forKey:options:)`.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility? = nil
    ) throws {
        try archiveObject(value, forKey: key, options: WriteOptions(accessibility: accessibility))
    }

    /// Stores a value.
    ///
    /// If the call throws one of the errors listed below, the previous item is unchanged.
    ///
    /// - Parameters:
    ///   - value: The value to store. `nil` removes the item, whatever the options, if this program can read it: the nil may
    ///     come from a getter or a `try?` that could not. `removeObject(forKey:)` removes any.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - options: The settings besides the value, and whether the write may overwrite or create an item.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on the
    ///   policy; ``LockboxError/interactionNotAllowed(_:)`` if the class of the new or the existing item is locked;
    ///   ``LockboxError/classNotProven(_:)`` if the options name no class, and the store is locked, which then cannot prove who chose
    ///   the item's; ``LockboxError/passcodeNotSet`` if the class needs a passcode;
    ///   ``LockboxError/encodingFailed(key:underlying:)``; ``LockboxError/valueTooLarge(size:limit:)`` over
    ///   ``ArchivedValue/maximumSize``; ``LockboxError/invalidAttribute(name:reason:)``;
    ///   ``LockboxError/invalidKey(reason:)`` for `nil`, if a method of Lockbox 2 has returned `nil` for the item although it
    ///   could not be read.
    public func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        options: WriteOptions
    ) throws {
        let archived: ArchivedValue? = if let value { try archive(value, key) } else { nil }
        try perform(operation(archived, key, options: options))
    }

    /// Returns the write of a value, or the removal of an item for nil.
    func operation(_ value: ArchivedValue?, _ key: String, options: WriteOptions) throws(LockboxError)
        -> ItemOperation
    {
        let key = try itemKey(key)
        guard let value else {
            try UnknownAnswers.check(key, of: self)
            return .removeReadable(key, now: now())
        }
        return .write(ItemChanges(value: value, options: options, modified: now()), to: key)
    }

    func perform(_ operation: ItemOperation) throws {
        if case .write(let changes, let key) = operation { return try changing().write(changes, to: key) }
        try changing().apply([operation])
    }

    /// Returns nil for nil, however deep it is in optionals.
    package func archive<Value: Encodable>(_ value: Value, _ key: String) throws(LockboxError)
        -> ArchivedValue?
    {
        if Value.self is any OptionalValue.Type, let optional = value as? any OptionalValue {
            return try optional.archived(by: self, key)
        }
        if Value.self == Data.self, let data = value as? Data {
            return try ArchivedValue(data: data, format: .data)
        }
        let data: Data
        do { data = try coder.encode(value) } catch {
            throw LockboxError.encodingFailed(key: key, underlying: error)
        }
        let archived = try ArchivedValue(data: data, format: coder.format)
        do { try checkDecodes(Value.self, data) } catch {
            throw LockboxError.encodingFailed(key: key, underlying: Undecodable(underlying: error))
        }
        return archived
    }

    /// The old value must not be replaced by one that cannot be read, such as JSON with a Decimal that is NaN.
    private func checkDecodes<Value>(_: Value.Type, _ data: Data) throws {
        if let type = Value.self as? any Decodable.Type {
            _ = try coder.decode(type, from: data)
        } else if coder.format == .json {
            _ = try coder.decode(AnyJSON.self, from: data)
        }
    }

    /// Any JSON that is well-formed.
    private struct AnyJSON: Decodable {
        init(from decoder: any Decoder) {}
    }

    /// Returns the value for a key.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Returns: The value, or `nil` if there is no such item or it has expired.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item's class is locked;
    ///   ``LockboxError/decodingFailed(key:type:underlying:)`` or
    ///   ``LockboxError/typeMismatch(key:stored:type:)`` if the item holds another type. The item is unchanged.
    public func unarchiveObject<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) throws -> Value? {
        try backend.value(for: itemKey(key), now: now()).map { try unarchive(type, $0, key: key) }
    }

    /// Returns the values for several keys. Absent and expired items are left out.
    ///
    /// The values are not a snapshot: another writer may change some of them during the call.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - keys: The items' keys.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)`, if it concerns one of the items.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func unarchiveObjects<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKeys keys: some Sequence<String>
    ) throws -> [String: Value] {
        try decode(type, backend.values(for: keys.map { try itemKey($0) }, now: now()))
    }

    /// Returns the value and the attributes for a key, both from the same write.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Returns: The value and the attributes, or `nil` if there is no such item or it has expired.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)`.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func unarchiveItem<Value: Decodable>(
        _ type: Value.Type = Value.self,
        forKey key: String
    ) throws -> UnarchivedItem<Value>? {
        try backend.item(for: itemKey(key), now: now()).map { item in
            UnarchivedItem(value: try unarchive(type, item.value, key: key), attributes: item.attributes)
        }
    }

    // MARK: One item

    /// Removes an item, even if it is locked or damaged. Does nothing if it does not exist.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Throws: ``LockboxError``. The item may still exist.
    public func removeObject(forKey key: String) throws {
        try changing().remove(itemKey(key))
    }

    /// Returns whether an item exists. Does not open its value.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Returns: `true` if the item exists, even if it is locked; `false` if it does not exist or has expired.
    /// - Throws: ``LockboxError``, for example if the item is damaged.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func containsObject(forKey key: String) throws -> Bool {
        try attributes(forKey: key) != nil
    }

    /// Returns an item's attributes. Does not open its value.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Returns: The attributes, even if the item is locked, or `nil` if there is no such item or it has expired.
    /// - Throws: ``LockboxError``, for example if the item is damaged.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func attributes(forKey key: String) throws -> ItemAttributes? {
        try backend.attributes(for: itemKey(key), now: now())
    }

    // MARK: All items with this prefix

    /// Returns the attributes of the items with this prefix, and separately the items that cannot be read. Opens no value: to
    /// read what it finds, use `unarchiveItems(_:matching:)`.
    ///
    /// - Parameters:
    ///   - pairs: Only items whose searchable attributes include all of these texts are listed.
    ///   - expired: Whether to list items that have expired too. `setAttributes` with an expiry revives one.
    /// - Returns: The items, locked ones included, and the items that cannot be read.
    /// - Throws: ``LockboxError`` if the items cannot be listed at all.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func list(matching pairs: [String: String] = [:], includingExpired expired: Bool = false) throws
        -> ItemList
    {
        var list = ItemList()
        let date = expired ? nil : now()
        try backend.forEachItem(prefix: keyPrefix, now: date, unreadable: { list.unreadable.append($0) }) {
            if $1.matches(pairs) { list.items[$0.key] = $1 }
        }
        return list
    }

    /// Returns the keys of all items with this prefix, in no particular order.
    ///
    /// - Returns: The keys of all items that have not expired, locked ones included.
    /// - Throws: ``LockboxError``, for example if an item is damaged. Use `list(matching:)` to get the others.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func allKeys() throws -> Set<String> {
        var keys: Set<String> = []
        try forEachItem { key, _ in keys.insert(key) }
        return keys
    }

    /// Calls a closure with the key and the attributes of every item with this prefix.
    ///
    /// Needs less memory than `list(matching:)`: for a million items some 120 MB while it runs, instead of some 470 MB.
    ///
    /// - Parameters:
    ///   - unreadable: Called with each item that cannot be read. By default, its error is thrown.
    ///   - body: Called with one item at a time, in no order, locked ones included and expired ones not. It may use this lockbox.
    ///     If it throws, the iteration ends and the error is rethrown.
    /// - Throws: ``LockboxError`` if the items cannot be listed at all, and what the closures throw.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func forEachItem(
        unreadable: (UnreadableItem) throws -> Void = { throw $0.error },
        _ body: (_ key: String, _ attributes: ItemAttributes) throws -> Void
    ) throws {
        try backend.forEachItem(prefix: keyPrefix, now: now(), unreadable: unreadable) {
            try body($0.key, $1)
        }
    }

    /// Removes all items with this prefix, locked, damaged and expired ones included. Other prefixes are not affected. An item that
    /// another writer moves to another key of the prefix meanwhile is removed too, unless the call has removed that key before.
    ///
    /// - Throws: ``LockboxError``. Some of the items may have been removed.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func removeAllObjects() throws {
        try changing().removeAll(prefix: keyPrefix)
    }

    /// Removes the expired items with this prefix, which already read as absent.
    ///
    /// Items that cannot be read are kept, because their expiry is not known.
    ///
    /// - Parameter unreadable: Called with each item that cannot be read. By default, nothing is done.
    /// - Returns: The number of items removed.
    /// - Throws: ``LockboxError``. Some of the items may have been removed.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func removeExpired(unreadable: (UnreadableItem) throws -> Void = { _ in }) throws -> Int {
        try changing().removeExpired(prefix: keyPrefix, now: now(), unreadable: unreadable)
    }

    /// Removes an item that cannot be read. Does nothing if another writer has replaced it since, and it is readable by now.
    ///
    /// - Parameter item: The item, from ``ItemList/unreadable``.
    /// - Throws: Any error of ``LockboxBackend/remove(record:)``.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func remove(_ item: UnreadableItem) throws {
        try changing().remove(record: item.record)
    }

    /// Sets aside an item that cannot be read, and keeps its bytes. It no longer counts as an item. If it is readable by
    /// now, it stays, and the call throws ``LockboxError/conflict(record:)``.
    ///
    /// - Parameter item: The item, from ``ItemList/unreadable``.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: Any error of ``LockboxBackend/quarantine(record:)``.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func quarantine(_ item: UnreadableItem) throws -> String {
        try changing().quarantine(record: item.record)
    }
}

// MARK: Codable <-> bytes

extension Lockbox {
    package func itemKey(_ key: String) throws(LockboxError) -> ItemKey {
        try ItemKey(prefix: keyPrefix, key: key)
    }

    /// Returns the backend, to change an item with.
    ///
    /// - Parameter prefix: The item's prefix. If nil, this lockbox's.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` in the closure of an update of an item with this prefix.
    package func changing(_ prefix: String? = nil) throws(LockboxError) -> any LockboxBackend {
        try UpdateClosure.check(self, prefix ?? keyPrefix)
        return backend
    }

    /// Decodes a value of an item.
    @_spi(Extensions)
    public func unarchive<Value: Decodable>(
        _ type: Value.Type,
        _ value: ArchivedValue,
        key: String
    ) throws(LockboxError) -> Value {
        if let type = Value.self as? any OptionalType.Type,
            let optional = try type.unarchived(by: self, value, key) as? Value
        {
            return optional
        }
        let format = Value.self == Data.self ? .data : coder.format
        guard value.format == format else {
            throw LockboxError.typeMismatch(key: key, stored: value.format, type: "\(type)")
        }
        if format == .data, let data = value.data as? Value { return data }
        do { return try coder.decode(type, from: value.data) } catch {
            throw LockboxError.decodingFailed(key: key, type: "\(type)", underlying: error)
        }
    }
}
