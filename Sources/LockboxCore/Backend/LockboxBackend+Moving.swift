public import LockboxPlatform

extension LockboxBackend {
    /// Copies an item to another key, with its attributes and dates.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The key of the copy, with the same prefix or another.
    ///   - policy: Whether to overwrite an item under the new key.
    ///   - now: The current time. An item that has expired by then counts as absent.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if the item is absent;
    ///   ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on `policy`;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the item, or one under the new key, is locked.
    public func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        _ = try put(key, newKey, policy, now)
    }

    /// Moves an item to another key: copies it, then removes the old one.
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try moveInTwoSteps(key, to: newKey, policy: policy, now: now)
    }

    /// Moves an item as the default implementation of ``LockboxBackend/move(_:to:policy:now:)`` does: copies it, then removes the
    /// old one.
    ///
    /// For a backend that can move some items in one step, and others not.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key, with the same prefix or another.
    ///   - policy: Whether to overwrite an item under the new key.
    ///   - now: The current time. An item that has expired by then counts as absent.
    /// - Throws: Any error of ``LockboxBackend/move(_:to:policy:now:)``.
    public func moveInTwoSteps(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        let item = try put(key, newKey, policy, now)
        if key == newKey { return }
        try update(key, now: nil) { current in
            // Another writer has changed, moved or removed it.
            guard current == item else { throw LockboxError.conflict(record: key.location) }
            return nil
        }
    }

    private func put(_ key: ItemKey, _ newKey: ItemKey, _ policy: WritePolicy, _ now: Date) throws
        -> StoredItem
    {
        var item = try source(key, now)
        if key == newKey { return item }
        try update(newKey, now: now) { old in
            // Read anew for each attempt, so that what is written is what is there.
            item = try source(key, now)
            let copy = item.renamed(to: newKey)
            // A move that was interrupted is completed.
            if old == copy { return old }
            try policy.check(key: newKey.key, exists: old != nil)
            return copy
        }
        return item
    }

    private func source(_ key: ItemKey, _ now: Date) throws -> StoredItem {
        guard let item = try item(for: key, now: now) else { throw LockboxError.itemNotFound(key: key.key) }
        return item
    }
}

extension StoredItem {
    /// Returns the same item under another key.
    ///
    /// - Parameter key: The new key.
    public func renamed(to key: ItemKey) -> StoredItem {
        StoredItem(key: key, value: value, checked: attributes)
    }
}
