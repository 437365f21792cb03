@_spi(Extensions) public import Lockbox
public import LockboxPlatform

/// A value of a property list, a keyed archive or a JSON file. Its description never shows the value.
@_spi(Extensions) public enum PropertyValue: Sendable, Hashable {
    /// The maximum nesting depth that the readers accept.
    public static let maximumDepth = 128

    /// An entry of a dictionary.
    public struct Pair: Sendable, Hashable, Unprinted {
        let key: PropertyValue
        let value: PropertyValue

        /// Creates an entry.
        public init(key: PropertyValue, value: PropertyValue) { (self.key, self.value) = (key, value) }
    }

    case null
    case boolean(Bool)
    /// An `NSNumber` of 0 or 1 that may have been a boolean: see ``KeyedArchive``. Decodes as either.
    case booleanOrNumber(Bool)
    case integer(Int64)
    /// An integer above `Int64.max`.
    case unsigned(UInt64)
    case real(Double)
    /// An `NSDecimalNumber`. Decodes only as a `Decimal`.
    case decimal(Decimal)
    case string(String)
    case date(Date)
    case data(Data)
    case url(URL)
    case uuid(UUID)
    case array([PropertyValue])
    case set([PropertyValue])
    case orderedSet([PropertyValue])
    /// The entries in the order of the file. The readers refuse equal keys.
    case dictionary([Pair])

    init(_ number: UInt64) { self = Int64(exactly: number).map(PropertyValue.integer) ?? .unsigned(number) }

    /// Creates a dictionary. Throws if two keys are equal.
    static func dictionary(keys: [PropertyValue], values: [PropertyValue]) throws(SourceError)
        -> PropertyValue
    {
        guard keys.count == values.count else {
            throw .malformed("a dictionary has different numbers of keys and values")
        }
        guard Set(keys).count == keys.count else { throw .malformed("a dictionary contains a key twice") }
        return .dictionary(zip(keys, values).map { Pair(key: $0, value: $1) })
    }

    /// Decodes the value as a type, without loss.
    ///
    /// A number decodes as every number type that represents it exactly, but not as a `Bool`, and a `Bool` not
    /// as a number. A set decodes as a `Set` or an `Array`, an ordered set only as an `Array`, and an array
    /// also as a `Set` if all its elements are different. Null decodes only as a nil Optional. A `URL` or
    /// `UUID` can also be decoded from a string with exactly its text, because text formats have no other form;
    /// a `Date` or `Data` only from itself. A type that does not decode every entry and element is refused,
    /// because the rest would be lost.
    ///
    /// - Throws: `DecodingError`, whose texts contain no values; ``SourceError/unsupported(_:)`` if something
    ///   would be lost; any error of the type's own `init(from:)`.
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try PropertyDecoder(value: self, codingPath: [], depth: 0).decode(type)
    }
}

extension PropertyValue {
    /// Compares bit for bit: NaN equals itself, and strings in different Unicode forms differ.
    func isIdentical(to other: PropertyValue) -> Bool {
        switch (self, other) {
        case (.real(let one), .real(let two)): one.bitPattern == two.bitPattern
        case (.date(let one), .date(let two)):
            one.timeIntervalSinceReferenceDate.bitPattern == two.timeIntervalSinceReferenceDate.bitPattern
        case (.string(let one), .string(let two)): one.utf8.elementsEqual(two.utf8)
        case (.array(let one), .array(let two)), (.set(let one), .set(let two)),
            (.orderedSet(let one), .orderedSet(let two)):
            one.elementsEqual(two) { $0.isIdentical(to: $1) }
        case (.dictionary(let one), .dictionary(let two)):
            one.elementsEqual(two) { $0.key.isIdentical(to: $1.key) && $0.value.isIdentical(to: $1.value) }
        default: self == other
        }
    }
}

extension PropertyValue: TypedValue {
    /// Decodes the value without loss.
    public func decoded<Value: Decodable>(as type: Value.Type) throws -> Value {
        do { return try decode(type) } catch let error as SourceError { throw MigrationRefusal(error) }
    }

    /// Compares bit for bit.
    public func isIdentical(to other: any TypedValue) -> Bool {
        (other as? PropertyValue).map { isIdentical(to: $0) } ?? false
    }
}

extension PropertyValue: Unprinted {
    /// The kind of the value.
    public var description: String {
        switch self {
        case .null: "null"
        case .boolean: "a boolean"
        case .booleanOrNumber: "a boolean or number"
        case .integer, .unsigned, .real, .decimal: "a number"
        case .string: "a string"
        case .date: "a date"
        case .data: "data"
        case .url: "a URL"
        case .uuid: "a UUID"
        case .array: "an array"
        case .set: "a set"
        case .orderedSet: "an ordered set"
        case .dictionary: "a dictionary"
        }
    }
}
