package import LockboxCore
import LockboxPlatform

/// The items of a source when a migration begins.
package protocol SourceItems {
    /// Returns the items' keys, in the order of the source if it has one.
    func keys() throws -> [String]

    /// Returns an item, or nil if it does not exist or is already in the new format.
    func item(forKey key: String) throws -> SourceItem?

    /// Removes items that have not changed since they were read.
    ///
    /// - Returns: The keys of the items that have changed, which are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String>
}

package struct SourceItem: Sendable {
    package let value: SourceValue
    /// The item as stored in a backend, if the source is one.
    let stored: StoredItem?

    package init(_ value: SourceValue, stored: StoredItem? = nil) {
        self.value = value
        self.stored = stored
    }
}

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
            try backend.update(ItemKey(prefix: keyPrefix, key: key), now: now) { current in
                if current == nil || current == item.stored { return nil }
                changed.insert(key)
                return current
            }
        }
        return changed
    }
}

/// Items that the app has read itself, and removes itself.
struct GivenItems: SourceItems {
    let items: [String: SourceValue]
    let removal: (@Sendable (Set<String>) throws -> Void)?

    func keys() -> [String] { items.keys.sorted() }

    func item(forKey key: String) -> SourceItem? { items[key].map { SourceItem($0) } }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        try removal?(Set(items.keys))
        return []
    }
}
