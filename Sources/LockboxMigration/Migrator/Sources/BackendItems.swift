import LockboxCore
import LockboxPlatform

/// Items of a backend.
struct BackendItems: SourceItems {
    let backend: any LockboxBackend
    let keyPrefix: String
    let now: Date

    func keys() throws -> [String] {
        let items = try backend.attributes(prefix: keyPrefix, now: now).filter {
            $0.value.format == .lockbox2
        }
        return items.keys.map(\.key).sorted()
    }

    func item(forKey key: String) throws -> SourceItem? {
        let item = try backend.item(for: ItemKey(prefix: keyPrefix, key: key), now: now)
        guard let item, item.value.format == .lockbox2 else { return nil }
        return SourceItem(.bytes(item.value.data, isOwn: true), stored: item)
    }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        var changed: Set<String> = []
        for (key, item) in items {
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
