@_spi(Extensions) public import LockboxCore
import LockboxPlatform

extension Lockbox {
    /// Reads, changes and stores a value in one step. No other thread or process can change it in between.
    ///
    /// ```swift
    /// try lockbox.update("count", as: Int.self) { count in count = (count ?? 0) + 1 }
    /// ```
    ///
    /// The expiry stays unless the options name one. The value is stored as `type` encodes it: members that only a newer version of
    /// the type has are lost, as in any program that decodes and encodes with `Codable`.
    ///
    /// - Parameters:
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - type: The type of the value. Can be omitted if it can be inferred.
    ///   - options: The settings besides the value, and whether the write may change or create an item.
    ///   - change: Changes the value, which is `nil` if there is no such item or it has expired. Set it to `nil`
    ///     to remove the item. **It may run more than once**, if another writer comes first; only the last
    ///     result is stored. If it throws, the item does not change. It must not change items with the same prefix:
    ///     that throws ``LockboxError/invalidKey(reason:)``.
    /// - Returns: The value that is stored now, or `nil` if the item was removed.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)` or of `archiveObject(_:forKey:options:)`, and what `change` throws.
    @discardableResult
    public func update<Value: Codable>(
        _ key: String,
        as type: Value.Type = Value.self,
        options: WriteOptions = WriteOptions(),
        _ change: (inout Value?) throws -> Void
    ) throws -> Value? {
        try update(itemKey(key), options, read: { try $0.map { try unarchive(type, $0, key: key) } }, change)
    }

    /// Changes what `read` returns, and stores it with the other changes. A result of nil removes the item.
    func update<Value: Encodable>(
        _ key: ItemKey,
        _ options: WriteOptions,
        read: (ArchivedValue?) throws -> Value,
        _ change: (inout Value) throws -> Void
    ) throws -> Value {
        var result: Value?
        var changes = ItemChanges(options: options, modified: now())
        try changing().update(key, now: changes.modified) { old in
            try options.policy.check(key: key.key, exists: old != nil)
            var value = try read(old?.value)
            try UpdateClosure.run(of: self) { try change(&value) }
            result = value
            guard let archived = try archive(value, key.key) else {
                if old != nil { try UnknownAnswers.check(key, of: self) }
                return nil
            }
            changes.value = archived
            changes.options.policy = old == nil ? .addOnly : .updateOnly
            return try changes.item(after: old, for: key)
        }
        // A backend that breaks its contract.
        guard let result else {
            throw LockboxError.notSupported(
                operation: "update: the backend returned without calling its closure"
            )
        }
        return result
    }

    /// Changes an item's attributes, but not its value. The expiry stays unless the options name one.
    ///
    /// If the options name an expiry, an expired item is found too, and revived. The item must exist, whatever the policy, and its
    /// class must be unlocked.
    ///
    /// - Parameters:
    ///   - options: The attributes to set. The policy does not count.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no such item;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the old or the new class is locked;
    ///   ``LockboxError/passcodeNotSet`` if the new class needs a passcode;
    ///   ``LockboxError/invalidAttribute(name:reason:)``. The item is unchanged.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func setAttributes(_ options: WriteOptions, forKey key: String) throws {
        var options = options
        options.policy = .updateOnly
        try changing().write(ItemChanges(options: options, modified: now()), to: itemKey(key))
    }

    /// Writes and removes many items in one call. The changes are durable when it returns.
    ///
    /// ```swift
    /// try lockbox.batch { batch in
    ///     try batch.archiveObject(token, forKey: "token")
    ///     try batch.removeObject(forKey: "old token")
    /// }
    /// ```
    ///
    /// If a crash interrupts the call, each item is as before or as after, independently of the others. If an
    /// operation is refused, nothing changes. Earlier operations may have been performed, however, in a batch of
    /// more than 1,000 operations or 4 MiB; in the Keychain, if another program changed an item at that moment, or the user
    /// declined a prompt; and in a backend that does one after the other.
    ///
    /// - Parameter body: Adds the operations, each for a different key. Nothing is changed before it returns.
    ///   Errors that it throws are rethrown.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if two operations have the same key; any error of
    ///   `archiveObject(_:forKey:options:)` or `removeObject(forKey:)`.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func batch(_ body: (inout LockboxBatch) throws -> Void) throws {
        var batch = LockboxBatch(self)
        try body(&batch)
        try changing().apply(batch.operations)
    }

    /// Copies an item to another key, with its attributes and dates.
    ///
    /// In files, in memory and on a cluster, the copy is stored only if the item is there, unchanged, at that moment. What was removed
    /// or replaced before does not come back. In the Keychain, and in a backend with the default implementation, it may for a
    /// moment, until the call has looked at the item again.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The key of the copy.
    ///   - prefix: The prefix of the copy. If `nil`, this lockbox's.
    ///   - policy: Whether to overwrite an item under the new key.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no such item;
    ///   ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on the policy;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if an item is locked. Nothing has changed.
    ///   ``LockboxError/conflict(record:)`` if other writers change the item during each attempt.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func copyObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) throws {
        let new = try ItemKey(prefix: prefix ?? keyPrefix, key: newKey)
        try changing(new.prefix).copy(itemKey(key), to: new, policy: policy, now: now())
    }

    /// Moves an item to another key, with its attributes and dates.
    ///
    /// If several moves of one item run at the same time, one succeeds, and none loses it, whatever their directions. In memory, on a
    /// cluster and in the Keychain, a move is one step. In files, the new item is durable before the old one goes. After a crash in
    /// between, the item is under both keys, and the call can be repeated. A move in the Keychain that replaces an item takes two
    /// steps: after a crash in between, the call throws ``LockboxError/duplicateItem(key:)`` until one of the two is removed.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key.
    ///   - prefix: The new prefix. If `nil`, this lockbox's.
    ///   - policy: Whether to overwrite an item under the new key.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no such item;
    ///   ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on the policy;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if an item is locked. Nothing has changed then.
    ///   ``LockboxError/conflict(record:)`` if other writers change the item during each attempt.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func moveObject(
        forKey key: String,
        toKey newKey: String,
        toPrefix prefix: String? = nil,
        policy: WritePolicy = .addOnly
    ) throws {
        let new = try ItemKey(prefix: prefix ?? keyPrefix, key: newKey)
        _ = try changing()
        try changing(new.prefix).move(itemKey(key), to: new, policy: policy, now: now())
    }

    /// Checks that the store can be used: writes, reads and removes an item that no list shows, and looks one up with this
    /// prefix, which does not exist.
    ///
    /// Call it before you rely on the store, for example before a migration at the first start.
    ///
    /// - Parameter accessibility: The class of the item. With ``Accessibility/whenUnlocked``, the check also fails if
    ///   the store is locked.
    /// - Throws: The reason why the store cannot be used, for example
    ///   ``LockboxError/storageFailure(operation:path:errno:explanation:)``,
    ///   ``LockboxError/unsafePermissions(path:reason:)`` or ``LockboxError/interactionNotAllowed(_:)``.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func checkAccess(accessibility: Accessibility = .whenUnlocked) throws {
        try backend.checkAccess(accessibility, now: now())
        // The folder of this prefix may be unusable, though that of the check is not.
        _ = try backend.value(for: itemKey("\0access \(world.randomNumber)"), now: now())
    }

    func decode<Value: Decodable>(_ type: Value.Type, _ values: [ItemKey: ArchivedValue]) throws
        -> [String: Value]
    {
        try Dictionary(values.map { ($0.key.key, try unarchive(type, $0.value, key: $0.key.key)) }) { $1 }
    }
}

/// Items that are found by their searchable attributes, and opened together with them.
extension Lockbox {
    /// Returns the values and the attributes of the items with this prefix that have some searchable attributes.
    ///
    /// Each item is opened as a whole, and its attributes are compared as they were opened. Use this, and not
    /// `list(matching:)` followed by a read, where the attributes decide what the value is used for. While the store is locked,
    /// an attacker with the device key can forge what a list shows.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - pairs: The texts by name that an item must have, compared by their bytes: see ``ItemAttributes/searchable``.
    ///   - unreadable: Called with each item that cannot be read, whose attributes are not known. By default, its error is
    ///     thrown.
    /// - Returns: The items by key.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)` for an item that matches, and what `unreadable` throws.
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func unarchiveItems<Value: Decodable>(
        _ type: Value.Type = Value.self,
        matching pairs: [String: String],
        unreadable: (UnreadableItem) throws -> Void = { throw $0.error }
    ) throws -> [String: UnarchivedItem<Value>] {
        var found: [String: UnarchivedItem<Value>] = [:]
        for key in try keys(matching: pairs, unreadable) {
            guard let item = try backend.item(for: key, now: now()), item.attributes.matches(pairs) else {
                continue
            }
            let value = try unarchive(type, item.value, key: key.key)
            found[key.key] = UnarchivedItem(value: value, attributes: item.attributes)
        }
        return found
    }

    /// Removes the items with this prefix that have some searchable attributes, which are compared as in
    /// `unarchiveItems(_:matching:)`.
    ///
    /// - Parameters:
    ///   - pairs: The texts by name that an item must have, compared by their bytes: see ``ItemAttributes/searchable``.
    ///   - unreadable: Called with each item that cannot be read. By default, its error is thrown.
    /// - Returns: The number of items removed.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item that matches is locked, and what `unreadable` throws.
    ///   Some of the items may have been removed.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await lockbox.async { }.")
    public func removeObjects(
        matching pairs: [String: String],
        unreadable: (UnreadableItem) throws -> Void = { throw $0.error }
    ) throws -> Int {
        var count = 0
        for key in try keys(matching: pairs, unreadable) {
            var isRemoved = false
            try changing().update(key, now: now()) { item in
                isRemoved = item?.attributes.matches(pairs) ?? false
                return isRemoved ? nil : item
            }
            if isRemoved { count += 1 }
        }
        return count
    }

    private func keys(matching pairs: [String: String], _ unreadable: (UnreadableItem) throws -> Void) throws
        -> [ItemKey]
    {
        var keys: [ItemKey] = []
        try backend.forEachItem(prefix: keyPrefix, now: now(), unreadable: unreadable) {
            if $1.matches(pairs) { keys.append($0) }
        }
        return keys
    }
}

/// A closure of `update` that runs on this thread.
///
/// Not a task-local value, which tasks that the closure starts would inherit: they may go on after it.
final class UpdateClosure {
    private let lockbox: Lockbox
    private let outer: UpdateClosure?

    private init(_ lockbox: Lockbox) {
        self.lockbox = lockbox
        outer = Self.innermost
    }

    private static let threadKey = {
        var key = pthread_key_t()
        let result = pthread_key_create(&key, nil)
        precondition(result == 0, "pthread_key_create: \(result)")
        return key
    }()

    private static var innermost: UpdateClosure? {
        pthread_getspecific(threadKey).map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    static func run<Result>(of lockbox: Lockbox, _ body: () throws -> Result) rethrows -> Result {
        let closure = UpdateClosure(lockbox)
        pthread_setspecific(threadKey, Unmanaged.passUnretained(closure).toOpaque())
        defer {
            pthread_setspecific(threadKey, closure.outer.map { Unmanaged.passUnretained($0).toOpaque() })
        }
        return try body()
    }

    /// Without this check, the two would wait for each other, or start again for ever.
    ///
    /// - Throws: ``LockboxError/invalidKey(reason:)`` in a closure that updates an item with this prefix.
    static func check(_ lockbox: Lockbox, _ prefix: String) throws(LockboxError) {
        var closure = innermost
        while let running = closure {
            if running.lockbox.keyPrefix == prefix, running.lockbox.isSameStore(as: lockbox) {
                throw .invalidKey(
                    reason:
                        "the closure of an update changes an item with the same prefix, \(String(reflecting: prefix)); "
                        + "make that change before or after the update"
                )
            }
            closure = running.outer
        }
    }
}

extension Lockbox: Undescribed {
    /// The key prefix and the backend's type.
    package var summary: String {
        "Lockbox(keyPrefix: \(String(reflecting: keyPrefix)), backend: \(type(of: backend)))"
    }
}

extension Lockbox {
    var hasBackendWithIdentity: Bool { type(of: backend) is AnyClass }

    /// Whether both give access to the same items, as far as is known. Two backends may have been opened for one store. Values
    /// of one type have no identity, and count as the same.
    func isSameStore(as other: Lockbox) -> Bool {
        if let key = try? itemKey("key"), let mine = location(of: key), let theirs = other.location(of: key) {
            return mine == theirs
        }
        return type(of: backend) == type(of: other.backend)
            && (!hasBackendWithIdentity || backend as AnyObject === other.backend as AnyObject)
    }

    func location(of key: ItemKey) -> String? { try? backend.location(of: key) }
}

/// The items with a prefix, and those that cannot be read: see `list(matching:)`.
public struct ItemList: Sendable, Equatable {
    /// The attributes of the items that can be read, by key.
    public var items: [String: ItemAttributes] = [:]

    /// The items that cannot be read. It is not known whether they match the search.
    public var unreadable: [UnreadableItem] = []
}

/// A value and its attributes, from one read: see `unarchiveItem(_:forKey:)`.
public struct UnarchivedItem<Value> {
    /// The value.
    public let value: Value

    /// The item's metadata.
    public let attributes: ItemAttributes
}

extension UnarchivedItem: Sendable where Value: Sendable {}
extension UnarchivedItem: Equatable where Value: Equatable {}
extension UnarchivedItem: Hashable where Value: Hashable {}

extension UnarchivedItem: Undescribed {
    /// The attributes, without the value.
    package var summary: String { "UnarchivedItem(\(attributes))" }
}
