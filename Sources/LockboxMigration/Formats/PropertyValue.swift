import LockboxCore
package import LockboxPlatform

/// A value as property lists, keyed archives and JSON know them. Its description never shows it.
package enum PropertyValue: Sendable, Hashable {
    /// How many values the readers let stand inside each other.
    package static let maximumDepth = 128

    /// A dictionary's entry.
    package struct Pair: Sendable, Hashable, Undescribed {
        let key: PropertyValue
        let value: PropertyValue
    }

    case null
    case boolean(Bool)
    /// An `NSNumber` of 0 or 1 that may have been a boolean: see ``KeyedArchive``. Decodes as either.
    case booleanOrNumber(Bool)
    case integer(Int64)
    /// Only above `Int64.max`.
    case unsigned(UInt64)
    case real(Double)
    /// An `NSDecimalNumber`. Decodes as a `Decimal` only.
    case decimal(Decimal)
    case string(String)
    case date(Date)
    case data(Data)
    case url(URL)
    case uuid(UUID)
    case array([PropertyValue])
    case set([PropertyValue])
    case orderedSet([PropertyValue])
    /// In the order of the file. The readers refuse equal keys.
    case dictionary([Pair])

    init(_ number: UInt64) { self = Int64(exactly: number).map(PropertyValue.integer) ?? .unsigned(number) }

    /// A dictionary, unless two of its keys are equal.
    package static func dictionary(keys: [PropertyValue], values: [PropertyValue]) throws(SourceError)
        -> PropertyValue
    {
        guard keys.count == values.count else {
            throw .malformed("a dictionary has not a value for each key")
        }
        guard Set(keys).count == keys.count else { throw .malformed("a dictionary has a key twice") }
        return .dictionary(zip(keys, values).map(Pair.init))
    }

    /// The value as a `Type`, if it is one exactly.
    ///
    /// A number decodes into each number type that represents it without loss, never into a `Bool`, nor a `Bool` into
    /// a number; a set into a `Set` or an `Array`, an ordered set into an `Array` only, and an array into a `Set` if no
    /// two elements are equal. Null is an Optional's nil and nothing else. `URL` and `UUID` are also read from a string
    /// that is exactly theirs, as the text formats have no others; `Date` and `Data` from nothing but themselves. A
    /// type that does not ask for every entry and element is refused: they would be lost.
    ///
    /// - Throws: `DecodingError`, whose texts hold no value; ``SourceError/unsupported(_:)`` if something would be lost; and
    ///   what the type's own `init(from:)` throws.
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try PropertyDecoder(value: self, codingPath: [], depth: 0).decode(type)
    }
}

extension PropertyValue {
    /// Whether the two are the same bit for bit: not a number is itself, and text in another Unicode form is another.
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

extension PropertyValue: Undescribed {
    /// The kind of value that it is.
    package var description: String {
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
