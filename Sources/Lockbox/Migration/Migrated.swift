import LockboxCore
import LockboxPlatform

struct Migrated<Value: Codable & Sendable>: MigratedValue {
    let value: Value

    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue {
        // The old value is worth more than a new one that cannot be read back.
        guard let archived = try lockbox.archive(value, key), equals(archived, of: lockbox) else {
            throw MigrationRefusal.notStorable(reason: "reading it back would return another value")
        }
        return archived
    }

    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool {
        guard let other = try? lockbox.unarchive(Value.self, archived, key: ""),
            let own = try? CanonicalEncoder.text(of: value),
            let others = try? CanonicalEncoder.text(of: other)
        else { return false }
        return own.utf8.elementsEqual(others.utf8)
    }
}

/// A decoded value, ready to be stored in the new format.
protocol MigratedValue: Sendable {
    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue
    /// Returns whether `archived` holds the same value. The bytes may differ, because dictionaries and sets
    /// have no order.
    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool
}

/// Encodes a value as text that is equal for equal values only. Sets and dictionaries are sorted, because they
/// have no order. `==` is not used: a type may not have it, or may ignore data that must not be lost.
final class CanonicalEncoder: Encoder {
    private enum Form {
        case leaf(String)
        case list
        case fields
    }

    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    private var form = Form.list
    /// The names are empty for elements of a list.
    private var parts: [(name: String, value: CanonicalEncoder)] = []

    static func text(of value: some Encodable) throws -> String {
        let encoder = CanonicalEncoder()
        try encoder.encode(value)
        return encoder.text
    }

    private var text: String {
        switch form {
        case .leaf(let text): text
        case .list: "[\(parts.map(\.value.text).joined(separator: ","))]"
        case .fields:
            "{\(parts.map { "\(String(reflecting: $0)):\($1.text)" }.sorted().joined(separator: ","))}"
        }
    }

    private func encode<Value: Encodable>(_ value: Value) throws {
        switch value {
        case let value as any Unordered:
            form = .leaf("(\(try value.texts().sorted().joined(separator: ",")))")
        // Encoded like JSON does, which keeps neither a URL's base nor different kinds of NaN.
        case let value as URL: form = .leaf(String(reflecting: value.absoluteString))
        case let value as Decimal: form = .leaf("\(value)")
        case let value as Data: form = .leaf(String(reflecting: value.base64EncodedString()))
        case let value as any BinaryFloatingPoint: form = .leaf(value.isNaN ? "nan" : "\(value)")
        case is Bool, is String, is any BinaryInteger: form = .leaf(String(reflecting: value))
        default: try value.encode(to: self)
        }
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        form = .fields
        return KeyedEncodingContainer(Keyed(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { Unkeyed(encoder: self) }

    func singleValueContainer() -> any SingleValueEncodingContainer { Single(encoder: self) }

    private func part(_ name: String = "") -> CanonicalEncoder {
        let part = CanonicalEncoder()
        parts.append((name, part))
        return part
    }

    private func encodeNil() { form = .leaf("nil") }

    private struct Keyed<Key: CodingKey>: KeyedEncodingContainerProtocol {
        let encoder: CanonicalEncoder
        var codingPath: [any CodingKey] { [] }

        func encodeNil(forKey key: Key) { encoder.part(key.stringValue).encodeNil() }
        func encode(_ value: some Encodable, forKey key: Key) throws {
            try encoder.part(key.stringValue).encode(value)
        }
        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type,
            forKey key: Key
        ) -> KeyedEncodingContainer<Nested> { encoder.part(key.stringValue).container(keyedBy: type) }
        func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
            encoder.part(key.stringValue).unkeyedContainer()
        }
        func superEncoder() -> any Encoder { encoder.part("super") }
        func superEncoder(forKey key: Key) -> any Encoder { encoder.part(key.stringValue) }
    }

    private struct Unkeyed: UnkeyedEncodingContainer {
        let encoder: CanonicalEncoder
        var codingPath: [any CodingKey] { [] }
        var count: Int { encoder.parts.count }

        func encodeNil() { encoder.part().encodeNil() }
        func encode(_ value: some Encodable) throws { try encoder.part().encode(value) }
        func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
            encoder.part().container(keyedBy: type)
        }
        func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder.part().unkeyedContainer() }
        func superEncoder() -> any Encoder { encoder.part() }
    }

    private struct Single: SingleValueEncodingContainer {
        let encoder: CanonicalEncoder
        var codingPath: [any CodingKey] { [] }

        func encodeNil() { encoder.encodeNil() }
        func encode(_ value: some Encodable) throws { try encoder.encode(value) }
    }
}

/// An unordered collection, which encodes its elements separately.
private protocol Unordered {
    func texts() throws -> [String]
}

extension Set: Unordered where Element: Encodable {
    func texts() throws -> [String] { try map { try CanonicalEncoder.text(of: $0) } }
}

extension Dictionary: Unordered where Key: Encodable, Value: Encodable {
    func texts() throws -> [String] {
        try map { "\(try CanonicalEncoder.text(of: $0)):\(try CanonicalEncoder.text(of: $1))" }
    }
}
