import LockboxCore
import LockboxPlatform

/// The items of a source, as they are when a migration begins.
package protocol LegacyItems {
    /// In the order of the source, if it has one.
    func keys() throws -> [String]

    /// Nil if there is no such item, or none that is old.
    func item(forKey key: String) throws -> LegacyItem?

    /// Removes items that are still as they were read.
    ///
    /// - Returns: the keys of those that were not, and are there still.
    func remove(_ items: [String: LegacyItem]) throws -> Set<String>
}

package struct LegacyItem: Sendable {
    package let value: LegacyValue
    /// If it is in a backend.
    let stored: StoredItem?

    package init(_ value: LegacyValue, stored: StoredItem? = nil) {
        self.value = value
        self.stored = stored
    }
}

/// Items of a backend.
struct BackendItems: LegacyItems {
    let backend: any LockboxBackend
    let keyPrefix: String
    let now: Date

    func keys() throws -> [String] {
        let items = try backend.attributes(prefix: keyPrefix, now: now).filter {
            $0.value.format == .lockbox2
        }
        return items.keys.map(\.key).sorted()
    }

    func item(forKey key: String) throws -> LegacyItem? {
        let item = try backend.item(for: ItemKey(prefix: keyPrefix, key: key), now: now)
        guard let item, item.value.format == .lockbox2 else { return nil }
        return LegacyItem(.bytes(item.value.data, isOwn: true), stored: item)
    }

    func remove(_ items: [String: LegacyItem]) throws -> Set<String> {
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

/// Items that the app has in its hands, and removes itself.
struct GivenItems: LegacyItems {
    let items: [String: LegacyValue]
    let removal: (@Sendable (Set<String>) throws -> Void)?

    func keys() -> [String] { items.keys.sorted() }

    func item(forKey key: String) -> LegacyItem? { items[key].map { LegacyItem($0) } }

    func remove(_ items: [String: LegacyItem]) throws -> Set<String> {
        try removal?(Set(items.keys))
        return []
    }
}
