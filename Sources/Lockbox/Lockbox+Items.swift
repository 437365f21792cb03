public import LockboxCore
import LockboxPlatform

extension Lockbox {
    /// Reads, changes and stores a value in one step. No other thread or process can change it in between.
    ///
    /// ```swift
    /// try lockbox.update("count", as: Int.self) { count in count = (count ?? 0) + 1 }
    /// ```
    ///
    /// Attributes that you do not pass keep their values, and so does the expiry. The value is stored as `type` encodes it:
    /// members that only a newer version of the type has are lost, as in any program that decodes and encodes with `Codable`.
    ///
    /// - Parameters:
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - type: The type of the value. Can be omitted if it can be inferred.
    ///   - accessibility: When the value can be read. If `nil`, the class of the existing item, or
    ///     ``Accessibility/whenUnlocked`` for a new one.
    ///   - expires: When the item expires.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - attributes: Texts by name that the item can be found by. Not for secrets.
    ///   - change: Changes the value, which is `nil` if there is no such item or it has expired. Set it to `nil`
    ///     to remove the item. **It may run more than once**, if another writer comes first; only the last
    ///     result is stored. If it throws, the item does not change. It must not change items with the same prefix:
    ///     that throws ``LockboxError/invalidKey(reason:)``.
    /// - Returns: The value that is stored now, or `nil` if the item was removed.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)` or of
    ///   `archiveObject(_:forKey:accessibility:expires:label:comment:attributes:policy:)`, and what `change`
    ///   throws.
    @discardableResult
    public func update<Value: Codable>(
        _ key: String,
        as type: Value.Type = Value.self,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        _ change: (inout Value?) throws -> Void
    ) throws -> Value? {
        try update(
            itemKey(key),
            ItemChanges(
                accessibility: accessibility,
                expires: expires,
                label: label,
                comment: comment,
                attributes: attributes,
                modified: now()
            ),
            read: { try $0.map { try unarchive(type, $0, key) } },
            change
        )
    }

    /// Changes what `read` returns, and stores it with the other changes. Nil removes the item.
    func update<Value: Encodable>(
        _ key: ItemKey,
        _ changes: ItemChanges,
        read: (ArchivedValue?) throws -> Value,
        _ change: (inout Value) throws -> Void
    ) throws -> Value {
        var result: Value?
        try changing().update(key, now: changes.modified) { old in
            var value = try read(old?.value)
            try UpdateClosure.run(of: self) { try change(&value) }
            result = value
            guard let archived = try archive(value, key.key) else {
                if old != nil { try UnknownAnswers.check(key, of: self) }
                return nil
            }
            var changes = changes
            changes.value = archived
            return try changes.item(after: old, for: key, policy: old == nil ? .addOnly : .updateOnly)
        }
        // A backend that breaks its contract.
        guard let result else {
            throw LockboxError.notSupported(
                operation: "update: the backend returned without calling its closure"
            )
        }
        return result
    }

    /// Changes an item's attributes, but not its value.
    ///
    /// Attributes that you do not pass keep their values, and so does the expiry. If you pass an expiry, an expired item is found
    /// too, and revived. The item's class must be unlocked.
    ///
    /// - Parameters:
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read.
    ///   - expires: When the item expires.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - attributes: Texts by name that the item can be found by. They replace all existing ones. Not for
    ///     secrets.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no such item;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the old or the new class is locked;
    ///   ``LockboxError/passcodeNotSet`` if the new class needs a passcode;
    ///   ``LockboxError/invalidAttribute(name:reason:)``. The item is unchanged.
    public func setAttributes(
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged
    ) throws {
        let changes = ItemChanges(
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            attributes: attributes,
            modified: now()
        )
        try changing().write(changes, to: itemKey(key), policy: .updateOnly)
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
    ///   `archiveObject(_:forKey:accessibility:expires:label:comment:attributes:policy:)` or
    ///   `removeObject(forKey:)`.
    public func batch(_ body: (inout LockboxBatch) throws -> Void) throws {
        var batch = LockboxBatch(self)
        try body(&batch)
        try changing().apply(batch.operations)
    }

    /// Copies an item to another key, with its attributes and dates.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The key of the copy.
    ///   - prefix: The prefix of the copy. If `nil`, this lockbox's.
    ///   - policy: Whether to overwrite an item under the new key.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no such item;
    ///   ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on the policy;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if an item is locked. Nothing has changed.
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
    /// Of several moves of one item at the same time, one succeeds. In memory, on a cluster and in the Keychain, a move is one
    /// step. In files, the new item is durable before the old one goes. After a crash in between, the item is under both keys,
    /// and the call can be repeated.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key.
    ///   - prefix: The new prefix. If `nil`, this lockbox's.
    ///   - policy: Whether to overwrite an item under the new key.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no such item;
    ///   ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on the policy;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if an item is locked. Nothing has changed then.
    ///   ``LockboxError/conflict(record:)`` if another writer changes the item during the move.
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
    ///   ``LockboxError/storageFailure(operation:path:errno:)``,
    ///   ``LockboxError/unsafePermissions(path:reason:)`` or ``LockboxError/interactionNotAllowed(_:)``.
    public func checkAccess(accessibility: Accessibility = .whenUnlocked) throws {
        try backend.checkAccess(accessibility, now: now())
        // The folder of this prefix may be unusable, though that of the check is not.
        _ = try backend.value(for: itemKey("\0access \(UInt64.random(in: .min ... .max))"), now: now())
    }

    func decode<Value: Decodable>(_ type: Value.Type, _ values: [ItemKey: ArchivedValue]) throws
        -> [String: Value]
    {
        try Dictionary(values.map { ($0.key.key, try unarchive(type, $0.value, $0.key.key)) }) { $1 }
    }
}

/// Items that are found by their searchable attributes, and opened together with them.
extension Lockbox {
    /// Returns the values and the attributes of the items with this prefix that have some searchable attributes.
    ///
    /// Each item is opened as a whole, and its attributes are compared as they were opened. Use this, and not
    /// `list(matching:)` followed by a read, where the attributes decide what the value is used for. While the store is locked,
    /// somebody who has the device key can forge what a list shows.
    ///
    /// - Parameters:
    ///   - type: The type that was archived. Can be omitted if it can be inferred.
    ///   - pairs: The texts by name that an item must have: see ``ItemAttributes/matches(_:)``.
    ///   - unreadable: Called with each item that cannot be read, whose attributes are not known. By default, its error is
    ///     thrown.
    /// - Returns: The items by key.
    /// - Throws: Any error of `unarchiveObject(_:forKey:)` for an item that matches, and what `unreadable` throws.
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
            let value = try unarchive(type, item.value, key.key)
            found[key.key] = UnarchivedItem(value: value, attributes: item.attributes)
        }
        return found
    }

    /// Removes the items with this prefix that have some searchable attributes, which are compared as in
    /// `unarchiveItems(_:matching:)`.
    ///
    /// - Parameters:
    ///   - pairs: The texts by name that an item must have: see ``ItemAttributes/matches(_:)``.
    ///   - unreadable: Called with each item that cannot be read. By default, its error is thrown.
    /// - Returns: The number of items removed.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item that matches is locked, and what `unreadable` throws.
    ///   Some of the items may have been removed.
    @discardableResult
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

extension Lockbox: CustomStringConvertible, CustomReflectable {
    /// The key prefix and the backend's type.
    public var description: String {
        "Lockbox(keyPrefix: \(String(reflecting: keyPrefix)), backend: \(type(of: backend)))"
    }

    /// Keeps `dump(_:)` from showing the backend, the coder and the clock.
    public var customMirror: Mirror {
        Mirror(self, children: ["keyPrefix": keyPrefix, "backend": "\(type(of: backend))"])
    }
}

extension Lockbox: Equatable {
    /// Returns whether two lockboxes give access to the same items: whether their key prefixes and backends are
    /// equal. Coders and clocks are not compared.
    ///
    /// Two backends are equal if they are the same instance of a class, or equal values of an `Equatable` type.
    /// With a backend of any other type, only copies of the same lockbox are equal.
    ///
    /// - Parameters:
    ///   - left: A lockbox.
    ///   - right: Another lockbox.
    public static func == (left: Lockbox, right: Lockbox) -> Bool {
        left.keyPrefix == right.keyPrefix && left.hasSameBackend(as: right)
    }

    private func hasSameBackend(as other: Lockbox) -> Bool {
        guard type(of: backend) == type(of: other.backend) else { return false }
        guard let original else { return backend as AnyObject === other.backend as AnyObject }
        return original === other.original || backend.isEqual(to: other.backend)
    }

    /// Whether both give access to the same items. Two backends may have been opened for one store.
    func isSameStore(as other: Lockbox) -> Bool {
        if hasSameBackend(as: other) { return true }
        guard let key = try? itemKey("key"), let location = location(of: key) else { return false }
        return location == other.location(of: key)
    }

    func location(of key: ItemKey) -> String? { try? (backend as? any LocatingBackend)?.location(of: key) }

    /// Identifies the copies of one lockbox.
    final class Original: Sendable {}
}

extension LockboxBackend {
    fileprivate func isEqual(to other: any LockboxBackend) -> Bool {
        guard let self = self as? any Equatable else { return false }
        return self.equals(other)
    }
}

extension Equatable {
    fileprivate func equals(_ other: Any) -> Bool { other as? Self == self }
}

/// The items with a prefix, and those that cannot be read: see `list(matching:)`.
public struct ItemList: Sendable, Equatable {
    /// The attributes of the items that can be read, by key.
    public var items: [String: ItemAttributes]

    /// The items that cannot be read. It is not known whether they match the search.
    public var unreadable: [UnreadableItem]

    /// Creates a list.
    ///
    /// - Parameters:
    ///   - items: The attributes of the items that can be read, by key.
    ///   - unreadable: The items that cannot be read.
    public init(items: [String: ItemAttributes] = [:], unreadable: [UnreadableItem] = []) {
        self.items = items
        self.unreadable = unreadable
    }
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

extension UnarchivedItem: CustomStringConvertible, CustomReflectable {
    /// The attributes, without the value.
    public var description: String { "UnarchivedItem(\(attributes))" }

    /// The attributes, without the value.
    public var customMirror: Mirror { Mirror(self, children: ["attributes": attributes]) }
}
