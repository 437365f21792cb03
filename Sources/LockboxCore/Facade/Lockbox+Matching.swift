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
