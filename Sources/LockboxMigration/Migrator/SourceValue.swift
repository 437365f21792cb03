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
            throw .unsupported("its bytes carry no type")
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

/// A decoded value, ready to be stored in the new format.
protocol MigratedValue: Sendable {
    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue
    /// Returns whether `archived` holds the same value. The bytes may differ, because dictionaries and sets
    /// have no order.
    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool
}

struct Migrated<Value: Codable & Sendable>: MigratedValue {
    let value: Value

    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue {
        let archived = try lockbox.archive(value, key)
        // The old value is worth more than a new one that cannot be read back.
        guard equals(archived, of: lockbox) else {
            throw MigrationRefusal.notStorable(reason: "reading it back would return another value")
        }
        return archived
    }

    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool {
        guard let other = try? lockbox.unarchive(Value.self, archived, ""),
            let own = try? CanonicalEncoder.text(of: value),
            let others = try? CanonicalEncoder.text(of: other)
        else { return false }
        return own.utf8.elementsEqual(others.utf8)
    }
}
