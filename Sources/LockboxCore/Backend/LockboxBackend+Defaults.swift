public import LockboxPlatform

/// What is made of the five methods that a backend must have.
extension LockboxBackend {
    /// See ``LockboxBackend/write(_:policy:)``. With ``LockboxBackend/update(_:now:_:)``.
    public func write(_ item: StoredItem, policy: WritePolicy) throws {
        try update(item.key, now: item.attributes.modified) { old in
            try policy.check(key: item.key.key, exists: old != nil)
            return try item.keepingCreated(of: old)
        }
    }

    /// See ``LockboxBackend/value(for:now:)``. The whole item is read for it.
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try item(for: key, now: now)?.value
    }

    /// See ``LockboxBackend/attributes(for:now:)``. The whole item is read for it.
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try item(for: key, now: now)?.attributes
    }

    /// See ``LockboxBackend/forEachItem(prefix:now:_:)``. All attributes are in memory meanwhile.
    public func forEachItem(prefix: String, now: Date?, _ body: (ItemKey, ItemAttributes) throws -> Void)
        throws
    {
        for (key, attributes) in try attributes(prefix: prefix, now: now) { try body(key, attributes) }
    }

    /// See ``LockboxBackend/removeAll(prefix:)``. One item after the other.
    public func removeAll(prefix: String) throws {
        for key in try attributes(prefix: prefix, now: nil).keys { try remove(key) }
    }

    /// See ``LockboxBackend/removeExpired(prefix:now:)``. One item after the other.
    @discardableResult
    public func removeExpired(prefix: String, now: Date) throws -> Int {
        var count = 0
        for (key, attributes) in try attributes(prefix: prefix, now: nil) where attributes.isExpired(at: now)
        {
            var isRemoved = false
            try update(key, now: nil) { item in
                // It may have been replaced meanwhile.
                isRemoved = item?.attributes.isExpired(at: now) ?? false
                return isRemoved ? nil : item
            }
            if isRemoved { count += 1 }
        }
        return count
    }

    /// Moves an item to another class.
    ///
    /// - Parameters:
    ///   - accessibility: The class that it is to have.
    ///   - key: Which item.
    ///   - now: Becomes its ``ItemAttributes/modified``. An item that is expired then is absent.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if it is absent; what ``update(_:now:_:)`` throws.
    public func setAccessibility(_ accessibility: Accessibility, for key: ItemKey, now: Date) throws {
        try update(key, now: now) { old in
            guard let old else { throw LockboxError.itemNotFound(key: key.key) }
            let attributes = try old.attributes.changing(accessibility: accessibility, modified: now)
            return StoredItem(key: old.key, value: old.value, checked: attributes)
        }
    }
}

extension StoredItem {
    /// With the date of the item that it replaces.
    package func keepingCreated(of old: StoredItem?) throws -> StoredItem {
        guard let old else { return self }
        let attributes = try attributes.changing(created: old.attributes.created)
        return StoredItem(key: key, value: value, checked: attributes)
    }
}
