/// A value and its attributes, from one read: see `unarchiveItem(_:forKey:)`.
public struct ArchivedItem<Value> {
    /// The value.
    public let value: Value

    /// The item's metadata.
    public let attributes: ItemAttributes
}

extension ArchivedItem: Sendable where Value: Sendable {}
extension ArchivedItem: Equatable where Value: Equatable {}
extension ArchivedItem: Hashable where Value: Hashable {}

extension ArchivedItem: CustomStringConvertible, CustomReflectable {
    /// The attributes, without the value.
    public var description: String { "ArchivedItem(\(attributes))" }

    /// The attributes, without the value.
    public var customMirror: Mirror { Mirror(self, children: ["attributes": attributes]) }
}
