import LockboxCore
package import LockboxPlatform

/// An item's value in the source.
package enum SourceValue: Sendable, Equatable {
    /// Bytes without a type. `isOwn` if Lockbox itself stored them: an empty text is then never an empty
    /// collection.
    case bytes(Data, isOwn: Bool)
    /// A value with a type.
    case property(PropertyValue)

    package static func == (one: SourceValue, other: SourceValue) -> Bool {
        switch (one, other) {
        case (.bytes(let one, let isOwn), .bytes(let other, let isOthers)): one == other && isOwn == isOthers
        case (.property(let one), .property(let other)): one.isIdentical(to: other)
        default: false
        }
    }

    func bytes() throws(SourceError) -> [UInt8] {
        switch self {
        case .bytes(let data, _), .property(.data(let data)): [UInt8](data)
        case .property: throw .notDecodable(type: "Data")
        }
    }

    func property() throws(SourceError) -> PropertyValue {
        guard case .property(let value) = self else {
            throw .unsupported(
                "its source does not record the type; name the encoding, such as .string or .json"
            )
        }
        return value
    }

    func decode<Value: Decodable>(_ decode: (Data) throws -> Value) throws -> Value {
        switch self {
        case .bytes(let data, _): try decode(data)
        case .property(let value): try value.decode(Value.self)
        }
    }

    func decodeCollection<Value: Decodable>(_ decode: (String) throws -> Value) throws -> Value {
        // Before 1.4.7, Lockbox stored an empty collection like one with an empty string.
        if case .bytes(let data, isOwn: false) = self, data.isEmpty {
            throw SourceError.unsupported("it may be an empty collection, or one with an empty string")
        }
        return try self.decode { try decode(Lockbox2Text.string($0)) }
    }
}
