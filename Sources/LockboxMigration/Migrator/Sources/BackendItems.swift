import LockboxCore
import LockboxPlatform

/// Items of a backend.
struct BackendItems: SourceItems {
    let backend: any LockboxBackend
    /// Where the items are to go. The same backend, or another one.
    let destination: any LockboxBackend
    let keyPrefix: String
    let now: Date
    /// Whether these are the lockbox's own items. Those in a new format are then already where they belong.
    var isStore = false

    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String] {
        var keys: [String] = []
        try backend.forEachItem(prefix: keyPrefix, now: now, unreadable: unreadable) {
            if !isStore || $1.format == .lockbox2 { keys.append($0.key) }
        }
        return keys.sorted()
    }

    /// An item of a new form that the destination has, too, may be the same one, if both are the same store.
    func holds(_ key: String) throws -> Bool {
        let key = try ItemKey(prefix: keyPrefix, key: key)
        guard let attributes = try backend.attributes(for: key, now: now) else { return false }
        if attributes.format == .lockbox2 { return true }
        return try !isStore && destination.attributes(for: key, now: now) != attributes
    }

    func isAbout(_ key: String, _ error: LockboxError) -> Bool {
        (try? ItemKey(prefix: keyPrefix, key: key)).map { error.isAbout($0, in: backend) } ?? false
    }

    func item(forKey key: String) throws -> SourceItem? {
        try backend.item(for: ItemKey(prefix: keyPrefix, key: key), now: now).map {
            SourceItem(.bytes($0.value.data, isOwn: true), stored: $0)
        }
    }

    func contains(_ record: StoredItem) throws -> Bool {
        try backend.item(for: record.key, now: nil) == record
    }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        var changed: Set<String> = []
        for (key, item) in items.sorted(by: { $0.key < $1.key }) {
            var isChanged = false
            try backend.update(ItemKey(prefix: keyPrefix, key: key), now: now) { current in
                isChanged = current != nil && current != item.stored
                return isChanged ? current : nil
            }
            if isChanged { changed.insert(key) }
        }
        return changed
    }
}
