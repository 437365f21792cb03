import LockboxCore

extension PropertyDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { if case .null = value { true } else { false } }
    func decode(_ type: Bool.Type) throws -> Bool { try boolean() }
    func decode(_ type: String.Type) throws -> String { try string() }
    func decode(_ type: Double.Type) throws -> Double { try real(type) }
    func decode(_ type: Float.Type) throws -> Float { try real(type) }
    func decode(_ type: Int.Type) throws -> Int { try integer(type) }
    func decode(_ type: Int8.Type) throws -> Int8 { try integer(type) }
    func decode(_ type: Int16.Type) throws -> Int16 { try integer(type) }
    func decode(_ type: Int32.Type) throws -> Int32 { try integer(type) }
    func decode(_ type: Int64.Type) throws -> Int64 { try integer(type) }
    func decode(_ type: Int128.Type) throws -> Int128 { try integer(type) }
    func decode(_ type: UInt.Type) throws -> UInt { try integer(type) }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try integer(type) }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try integer(type) }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try integer(type) }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try integer(type) }
    func decode(_ type: UInt128.Type) throws -> UInt128 { try integer(type) }
}

extension PropertyDecoder {
    /// A value's position in its container.
    struct Index: CodingKey {
        let intValue: Int?
        var stringValue: String { "Index \(intValue ?? 0)" }

        init(_ index: Int) { intValue = index }
        init?(intValue: Int) { self.init(intValue) }
        init?(stringValue: String) { nil }
    }

    struct Keyed<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let decoder: PropertyDecoder
        let fields: [String: PropertyValue]

        var codingPath: [any CodingKey] { decoder.codingPath }
        var allKeys: [Key] { fields.keys.compactMap(Key.init(stringValue:)) }

        func contains(_ key: Key) -> Bool { fields[key.stringValue] != nil }

        func decodeNil(forKey key: Key) throws -> Bool {
            guard case .null = try value(key) else { return false }
            decoder.readParts?.names.insert(key.stringValue)
            return true
        }

        func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
            let decoded = try decoder.nested(value(key), key).decode(type)
            decoder.readParts?.names.insert(key.stringValue)
            return decoded
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type,
            forKey key: Key
        ) throws -> KeyedDecodingContainer<Nested> { try opened(key).container(keyedBy: type) }

        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
            try opened(key).unkeyedContainer()
        }

        func superDecoder() throws -> any Decoder {
            guard let value = fields["super"] else {
                throw decoder.corrupted("There is no value for the superclass.")
            }
            decoder.readParts?.names.insert("super")
            return decoder.opened(value, Index(0))
        }

        func superDecoder(forKey key: Key) throws -> any Decoder { try opened(key) }

        private func opened(_ key: Key) throws -> PropertyDecoder {
            let value = try value(key)
            decoder.readParts?.names.insert(key.stringValue)
            return decoder.opened(value, key)
        }

        private func value(_ key: Key) throws -> PropertyValue {
            guard let value = fields[key.stringValue] else {
                throw DecodingError.keyNotFound(key, decoder.context("There is no value for a key."))
            }
            return value
        }
    }

    struct Unkeyed: UnkeyedDecodingContainer {
        let decoder: PropertyDecoder
        let elements: [PropertyValue]
        private(set) var currentIndex = 0 {
            didSet { decoder.readParts?.reach(currentIndex) }
        }

        init(decoder: PropertyDecoder, elements: [PropertyValue]) {
            (self.decoder, self.elements) = (decoder, elements)
        }

        var codingPath: [any CodingKey] { decoder.codingPath }
        var count: Int? { elements.count }
        var isAtEnd: Bool { currentIndex == elements.count }

        mutating func decodeNil() throws -> Bool {
            guard case .null = try value() else { return false }
            currentIndex += 1
            return true
        }

        mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
            let value = try decoder.nested(value(), Index(currentIndex)).decode(type)
            currentIndex += 1
            return value
        }

        mutating func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type
        ) throws -> KeyedDecodingContainer<Nested> {
            let container = try opened().container(keyedBy: type)
            currentIndex += 1
            return container
        }

        mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
            let container = try opened().unkeyedContainer()
            currentIndex += 1
            return container
        }

        mutating func superDecoder() throws -> any Decoder {
            let decoder = try opened()
            currentIndex += 1
            return decoder
        }

        private func opened() throws -> PropertyDecoder {
            try decoder.opened(value(), Index(currentIndex))
        }

        private func value() throws -> PropertyValue {
            guard !isAtEnd else {
                throw DecodingError.valueNotFound(Any.self, decoder.context("There are no more elements."))
            }
            return elements[currentIndex]
        }
    }
}
