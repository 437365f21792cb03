import Foundation

/// A value as property lists, keyed archives and JSON know them. Its description never shows it.
enum PropertyValue: Sendable, Hashable {
    /// How many values the readers let stand inside each other.
    static let maximumDepth = 128

    /// A dictionary's entry.
    struct Pair: Sendable, Hashable, Undescribed {
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
    static func dictionary(keys: [PropertyValue], values: [PropertyValue]) throws(LegacyFault)
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
    /// that is exactly theirs, as the text formats have no others; `Date` and `Data` from nothing but themselves.
    ///
    /// - Throws: `DecodingError`, whose texts hold no value; and what the type's own `init(from:)` throws.
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try PropertyDecoder(value: self, codingPath: [], depth: 0).decode(type)
    }
}

extension PropertyValue: Undescribed {
    /// The kind of value that it is.
    var description: String {
        switch self {
        case .null: "null"
        case .boolean: "a boolean"
        case .booleanOrNumber: "a boolean or number"
        case .integer, .unsigned, .real: "a number"
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
