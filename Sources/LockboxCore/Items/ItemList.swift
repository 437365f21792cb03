/// The items with a prefix, and those that cannot be read: see `list(matching:)`.
public struct ItemList: Sendable, Equatable {
    /// The attributes of the items that can be read, by key.
    public var items: [String: ItemAttributes]

    /// The items that cannot be read. It is not known whether they match the search.
    public var unreadable: [UnreadableItem]

    /// Creates a list.
    ///
    /// - Parameters:
    ///   - items: The attributes of the items that can be read, by key.
    ///   - unreadable: The items that cannot be read.
    public init(items: [String: ItemAttributes] = [:], unreadable: [UnreadableItem] = []) {
        self.items = items
        self.unreadable = unreadable
    }
}
