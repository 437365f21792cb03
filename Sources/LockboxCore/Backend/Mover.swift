package import LockboxPlatform

/// Brings items into a backend, for copies, moves and migrations. What it has put there has been read back: only then may the
/// original go: see ``Original``.
package struct Mover {
    private let destination: any LockboxBackend
    /// The time by which an item of the destination may have expired, and so counts as absent.
    private let now: Date
    private var added: [ItemKey: StoredItem] = [:]

    package init(to destination: any LockboxBackend, now: Date) {
        (self.destination, self.now) = (destination, now)
    }

    /// Writes new items in one batch, which is faster than one by one. If it is refused, for example because one of them exists, all of
    /// them are still to be put: some may be there, and not durable.
    package mutating func add(_ items: [StoredItem]) {
        added = [:]
        guard items.count > 1, (try? destination.apply(items.map(ItemOperation.add))) != nil else { return }
        for item in items { added[item.key] = item }
    }

    /// Stores an item durably, unless the last batch did, and reads it back.
    ///
    /// - Parameter isFree: Whether it may take the place of the item that is there. May be called more than once.
    /// - Returns: `false` if its place is not free.
    /// - Throws: ``LockboxError/conflict(record:)`` if another item is read back: another writer has stored it since.
    package func put(_ item: StoredItem, where isFree: (StoredItem?) throws -> Bool) throws -> Bool {
        if added[item.key] != item {
            do {
                try destination.update(item.key, now: now) { old in
                    guard try isFree(old) else { throw OtherItem() }
                    return try item.keepingClaim(of: old)
                }
            } catch is OtherItem { return false }
        }
        guard try holds(item) else { throw LockboxError.conflict(record: item.key.location) }
        return true
    }

    /// Whether the destination has the same item.
    package func holds(_ item: StoredItem) throws -> Bool {
        try destination.item(for: item.key, now: nil)?.isSame(as: item) ?? false
    }
}

/// An item that is to go when it has been brought elsewhere.
package struct Original: Sendable {
    package let item: StoredItem
    /// Removes it, and returns false if it has been written since it was read, also with the same content: another move may rely on
    /// that, and remove what this one has stored. Backends that do not tell compare the content. One that is gone counts as removed.
    package let remove: @Sendable () throws -> Bool

    package init(_ item: StoredItem, remove: @escaping @Sendable () throws -> Bool) {
        (self.item, self.remove) = (item, remove)
    }
}

/// A backend that tells whether an item has been written since it was read.
package protocol RevisingBackend: LockboxBackend {
    func revisedItem(for key: ItemKey, now: Date?) throws -> Original?
}

extension LockboxBackend {
    package func original(for key: ItemKey, now: Date?) throws -> Original? {
        if let revising = self as? any RevisingBackend { return try revising.revisedItem(for: key, now: now) }
        return try item(for: key, now: now).map { item in
            Original(item) { try replace(item, with: nil, mayBeGone: true) }
        }
    }

    /// Replaces an item, or removes it, and returns false if it is another by now.
    ///
    /// - Parameter mayBeGone: Whether an item that is gone counts as unchanged.
    package func replace(_ item: StoredItem, with new: StoredItem?, mayBeGone: Bool = false) throws -> Bool {
        do {
            try update(item.key, now: nil) { current in
                guard current == item || mayBeGone && current == nil else { throw OtherItem() }
                return new
            }
            return true
        } catch is OtherItem { return false }
    }
}

/// Ends an update that would change another item.
private struct OtherItem: Error {}
