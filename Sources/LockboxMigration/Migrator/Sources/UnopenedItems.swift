import LockboxCore

/// A source that could not be opened. Every call throws the reason.
struct UnopenedItems: SourceItems {
    let error: any Error

    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String] { throw error }

    func item(forKey key: String) throws -> SourceItem? { throw error }

    func holds(_ key: String) throws -> Bool { throw error }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> { throw error }
}
