public import LockboxPlatform

/// Default implementations, built on the five required methods.
extension LockboxBackend {
    /// See ``LockboxBackend/write(_:policy:)``. Calls ``LockboxBackend/update(_:now:_:)``.
    public func write(_ item: StoredItem, policy: WritePolicy) throws {
        try update(item.key, now: item.attributes.modified) { old in
            try policy.check(key: item.key.key, exists: old != nil)
            return try item.keepingCreated(of: old)
        }
    }

    /// See ``LockboxBackend/value(for:now:)``. Reads the whole item.
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try item(for: key, now: now)?.value
    }

    /// See ``LockboxBackend/attributes(for:now:)``. Reads the whole item.
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try item(for: key, now: now)?.attributes
    }

    /// See ``LockboxBackend/forEachItem(prefix:now:_:)``. Loads all attributes into memory first.
    public func forEachItem(prefix: String, now: Date?, _ body: (ItemKey, ItemAttributes) throws -> Void)
        throws
    {
        for (key, attributes) in try attributes(prefix: prefix, now: now) { try body(key, attributes) }
    }

    /// See ``LockboxBackend/removeAll(prefix:)``. Removes one item at a time.
    public func removeAll(prefix: String) throws {
        for key in try attributes(prefix: prefix, now: nil).keys { try remove(key) }
    }

    /// See ``LockboxBackend/removeExpired(prefix:now:)``. Removes one item at a time.
    @discardableResult
    public func removeExpired(prefix: String, now: Date) throws -> Int {
        var count = 0
        for (key, attributes) in try attributes(prefix: prefix, now: nil) where attributes.isExpired(at: now)
        {
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
    ///   ``update(_:now:_:)``.
    public func setAccessibility(_ accessibility: Accessibility, for key: ItemKey, now: Date) throws {
        try update(key, now: now) { old in
            guard let old else { throw LockboxError.itemNotFound(key: key.key) }
            let attributes = try old.attributes.changing(accessibility: accessibility, modified: now)
            return StoredItem(key: old.key, value: old.value, checked: attributes)
        }
    }
}

extension StoredItem {
    /// Returns the item with the creation date of the item it replaces.
    package func keepingCreated(of old: StoredItem?) throws -> StoredItem {
        guard let old else { return self }
        let attributes = try attributes.changing(created: old.attributes.created)
        return StoredItem(key: key, value: value, checked: attributes)
    }
}
