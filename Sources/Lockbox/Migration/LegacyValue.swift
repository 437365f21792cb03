import Foundation

/// A value as a source has it.
enum LegacyValue: Sendable, Equatable {
    /// Bytes that do not say what they are. Of Lockbox's own, an empty text is never an empty collection.
    case bytes(Data, isOwn: Bool)
    /// A value that says its type.
    case property(PropertyValue)

    func bytes() throws(LegacyFault) -> [UInt8] {
        switch self {
        case .bytes(let data, _), .property(.data(let data)): [UInt8](data)
        case .property: throw .notDecodable(type: "Data")
        }
    }

    func property() throws(LegacyFault) -> PropertyValue {
        guard case .property(let value) = self else {
            throw .unsupported("its bytes do not say what they are")
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
        // Before 1.4.7 Lockbox stored an empty collection as it does one of an empty text.
        if case .bytes(let data, isOwn: false) = self, data.isEmpty {
            throw LegacyFault.unsupported("it may be an empty collection, or one of an empty text")
        }
        return try self.decode { try decode(LegacyText.string($0)) }
    }
}

/// A value on its way into the new form.
protocol MigratedValue: Sendable {
    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue
    /// Whether `archived` holds the same value; its bytes may be others, as dictionaries and sets have no order.
    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool
}

struct Migrated<Value: Codable & Sendable>: MigratedValue {
    let value: Value

    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue {
        let archived = try lockbox.archive(value, key)
        // A value that the app could not read back is not worth the old one.
        guard equals(archived, of: lockbox) else {
            throw MigrationRefusal.notStorable(reason: "it does not read back as it was")
        }
        return archived
    }

    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool {
        guard let other = try? lockbox.unarchive(Value.self, archived, "") else { return false }
        guard let own = encoded(value), let others = encoded(other) else { return false }
        if own == others { return true }
        // Sets have no order. But `==` alone is not enough: a type may leave out of it what is worth keeping.
        guard let value = value as? any Equatable, value.isEqual(to: other) else { return false }
        return unordered(own) == unordered(others)
    }

    private func encoded(_ value: Value) -> Data? {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: "inf",
            negativeInfinity: "-inf",
            nan: "nan"
        )
        return try? encoder.encode(value)
    }

    /// The JSON with the elements of every array sorted.
    private func unordered(_ json: Data) -> String? {
        func text(_ value: Any) -> String {
            switch value {
            case let elements as [Any]: "[\(elements.map(text).sorted().joined(separator: ","))]"
            case let entries as [String: Any]:
                "{\(entries.map { "\(String(reflecting: $0.key)):\(text($0.value))" }.sorted().joined(separator: ","))}"
            default: String(reflecting: value)
            }
        }
        return (try? JSONSerialization.jsonObject(with: json, options: .fragmentsAllowed)).map(text)
    }
}

extension Equatable {
    fileprivate func isEqual(to other: Any) -> Bool { other as? Self == self }
}
