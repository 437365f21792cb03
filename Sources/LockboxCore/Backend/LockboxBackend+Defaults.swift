public import LockboxPlatform

/// Default implementations, built on the five required methods.
extension LockboxBackend {
    /// Returns ``ArchivedValue/maximumSize``.
    public var maximumValueSize: Int { ArchivedValue.maximumSize }

    /// Returns `true`.
    public var isOnThisDevice: Bool { true }

    /// Creates an item, or changes the parts of an existing one that the changes set. Calls
    /// ``LockboxBackend/update(_:now:_:)``.
    public func write(_ changes: ItemChanges, to key: ItemKey, policy: WritePolicy) throws {
        try update(key, now: changes.expiryTime) { try changes.item(after: $0, for: key, policy: policy) }
    }

    /// Performs one operation after the other.
    public func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        for operation in operations {
            switch operation {
            case .write(let changes, let key, let policy): try write(changes, to: key, policy: policy)
            case .remove(let key): try remove(key)
            case .removeReadable(let key, let now): try update(key, now: now) { _ in nil }
            }
        }
    }

    /// Stores an item with all its attributes. Of an existing item, only the
    /// ``ItemAttributes/created`` date stays.
    ///
    /// - Parameters:
    ///   - item: The key, value and attributes. ``ItemAttributes/modified`` is the date of the write.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    /// - Throws: Any error of ``LockboxBackend/write(_:to:policy:)``.
    public func write(_ item: StoredItem, policy: WritePolicy) throws {
        try write(ItemChanges(item), to: item.key, policy: policy)
    }

    /// Reads a whole item, and returns its value, or `nil` if it is absent.
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try item(for: key, now: now)?.value
    }

    /// Reads the values of several items, one at a time.
    public func values(for keys: [ItemKey], now: Date?) throws -> [ItemKey: ArchivedValue] {
        var values: [ItemKey: ArchivedValue] = [:]
        for key in keys { values[key] = try value(for: key, now: now) }
        return values
    }

    /// Reads a whole item, and returns its attributes, or `nil` if it is absent.
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try item(for: key, now: now)?.attributes
    }

    /// Calls a closure with the attributes of every item with a prefix. Loads all attributes into memory first.
    public func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        for (key, attributes) in try attributes(prefix: prefix, now: now) { try body(key, attributes) }
    }

    /// Calls ``LockboxBackend/prefixes()``.
    public func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String> { try prefixes() }

    /// Removes every item with a prefix, one at a time.
    public func removeAll(prefix: String) throws {
        for key in try attributes(prefix: prefix, now: nil).keys { try remove(key) }
    }

    /// Removes the expired items with a prefix, and returns their number. Items that cannot be read stay, because their
    /// expiry is not known.
    ///
    /// - Parameters:
    ///   - prefix: The key prefix.
    ///   - now: The current time.
    /// - Throws: ``LockboxError`` if some items could not be removed.
    @discardableResult
    public func removeExpired(prefix: String, now: Date) throws -> Int {
        try removeExpired(prefix: prefix, now: now, unreadable: { _ in })
    }

    /// Removes the expired items with a prefix, one at a time, and returns their number.
    @discardableResult
    public func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        var expired: [ItemKey] = []
        try forEachItem(prefix: prefix, now: nil, unreadable: unreadable) {
            if $1.isExpired(at: now) { expired.append($0) }
        }
        var count = 0
        for key in expired {
            var isRemoved = false
            try update(key, now: nil) { item in
                // The item may have been replaced since it was listed.
                isRemoved = item?.attributes.isExpired(at: now) ?? false
                return isRemoved ? nil : item
            }
            if isRemoved { count += 1 }
        }
        return count
    }

    /// Moves an item to another accessibility class.
    ///
    /// - Parameters:
    ///   - accessibility: The new class.
    ///   - key: The item's key.
    ///   - now: The current time, which becomes ``ItemAttributes/modified``. An item that has expired by then
    ///     counts as absent.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if the item is absent, or any error of
    ///   ``write(_:to:policy:)``.
    public func setAccessibility(_ accessibility: Accessibility, for key: ItemKey, now: Date) throws {
        try write(ItemChanges(accessibility: accessibility, modified: now), to: key, policy: .updateOnly)
    }
}
