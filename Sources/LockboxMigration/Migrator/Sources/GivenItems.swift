import LockboxCore
import LockboxPlatform

/// Items that the app has read itself, and removes itself.
struct GivenItems: SourceItems {
    let items: [String: SourceValue]
    let removal: (@Sendable (Set<String>) throws -> Void)?

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { items.keys.sorted() }

    func holds(_ key: String) -> Bool { items[key] != nil }

    func item(forKey key: String) -> SourceItem? { items[key].map { SourceItem($0) } }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        try removal?(Set(items.keys))
        return []
    }
}
