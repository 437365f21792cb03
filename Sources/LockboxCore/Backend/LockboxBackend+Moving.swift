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
    ///   ``LockboxError/interactionNotAllowed(_:)`` if an item is locked.
    public func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        _ = try put(key, newKey, policy, now)
    }

    /// Moves an item to another key, with its attributes and dates.
    ///
    /// The new item is durable before the old one goes: after a crash in between, the item is under both keys,
    /// and the call can be repeated.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key, with the same prefix or another.
    ///   - policy: Whether to overwrite an item under the new key.
    ///   - now: The current time. An item that has expired by then counts as absent.
    /// - Throws: Any error of ``copy(_:to:policy:now:)``; ``LockboxError/conflict(record:)`` if another writer
    ///   changes the item during the move. It is then under both keys.
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        let item = try put(key, newKey, policy, now)
        if key == newKey { return }
        try update(key, now: nil) { current in
            guard current == nil || current == item else {
                throw LockboxError.conflict(record: key.location)
            }
            return nil
        }
    }

    private func put(_ key: ItemKey, _ newKey: ItemKey, _ policy: WritePolicy, _ now: Date) throws
        -> StoredItem
    {
        guard let item = try item(for: key, now: now) else { throw LockboxError.itemNotFound(key: key.key) }
        if key == newKey { return item }
        let copy = StoredItem(key: newKey, value: item.value, checked: item.attributes)
        try update(newKey, now: now) { old in
            // A move that was interrupted is completed.
            if old == copy { return old }
            try policy.check(key: newKey.key, exists: old != nil)
            return copy
        }
        return item
    }
}
