/// A value and its attributes, from one read: see `unarchiveItem(_:forKey:)`.
public struct UnarchivedItem<Value> {
    /// The value.
    public let value: Value

    /// The item's metadata.
    public let attributes: ItemAttributes
}

extension UnarchivedItem: Sendable where Value: Sendable {}
extension UnarchivedItem: Equatable where Value: Equatable {}
extension UnarchivedItem: Hashable where Value: Hashable {}

extension UnarchivedItem: CustomStringConvertible, CustomReflectable {
    /// The attributes, without the value.
    public var description: String { "UnarchivedItem(\(attributes))" }

    /// The attributes, without the value.
    public var customMirror: Mirror { Mirror(self, children: ["attributes": attributes]) }
}
