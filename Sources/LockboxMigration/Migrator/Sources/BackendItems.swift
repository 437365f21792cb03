import LockboxCore
import LockboxPlatform

/// Items of a backend.
struct BackendItems: SourceItems {
    let backend: any LockboxBackend
    let keyPrefix: String
    let now: Date
    /// Whether these are the lockbox's own items. Those in a new format are then already where they belong.
    var isStore = false

    func keys() throws -> [String] {
        let items = try backend.attributes(prefix: keyPrefix, now: now).filter {
            !isStore || $0.value.format == .lockbox2
        }
        return items.keys.map(\.key).sorted()
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
