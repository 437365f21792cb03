/// What a write does to an optional attribute of an item.
///
/// A literal sets the attribute: `label: "Web shop"`.
public enum AttributeChange<Value: Sendable & Hashable>: Sendable, Hashable {
    /// The attribute stays as it is. A new item has none.
    case unchanged

    /// The attribute is removed.
    case removed

    /// The attribute is set to a value.
    case set(Value)

    /// Sets the attribute, or removes it if `value` is `nil`.
    ///
    /// - Parameter value: The new value, or `nil`.
    public init(_ value: Value?) { self = value.map(Self.set) ?? .removed }

    /// Returns the attribute after the write.
    func applied(to old: Value?) -> Value? {
        switch self {
        case .unchanged: old
        case .removed: nil
        case .set(let value): value
        }
    }
}

extension AttributeChange: ExpressibleByUnicodeScalarLiteral where Value == String {
    /// Sets the attribute.
    public init(unicodeScalarLiteral value: String) { self = .set(value) }
}

extension AttributeChange: ExpressibleByExtendedGraphemeClusterLiteral where Value == String {
    /// Sets the attribute.
    public init(extendedGraphemeClusterLiteral value: String) { self = .set(value) }
}

extension AttributeChange: ExpressibleByStringLiteral where Value == String {
    /// Sets the attribute.
    public init(stringLiteral value: String) { self = .set(value) }
}

extension AttributeChange: ExpressibleByStringInterpolation where Value == String {}

extension AttributeChange: ExpressibleByDictionaryLiteral where Value == [String: String] {
    /// Sets the attributes. If a name occurs twice, the last text counts.
    public init(dictionaryLiteral elements: (String, String)...) {
        self = .set(Dictionary(elements) { $1 })
    }
}
