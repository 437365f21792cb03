import LockboxPlatform

/// Decodes a ``PropertyValue`` without lossy conversions.
struct PropertyDecoder: Decoder {
    let value: PropertyValue
    let codingPath: [any CodingKey]
    let depth: Int
    /// Whether keys are decoded for a dictionary with `Int` keys.
    var hasIntegerKeys = false
    /// The parts that were read, or nil while the value has not been decoded.
    var readParts: ReadParts?

    var userInfo: [CodingUserInfoKey: Any] { [:] }

    /// A limit for recursive types, far above what the readers allow.
    private static let maximumDepth = 512

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .dictionary(let pairs) = value else { throw mismatch([String: Any].self) }
        var fields: [String: PropertyValue] = [:]
        for pair in pairs {
            guard let name = hasIntegerKeys ? Self.integerName(pair.key) : Self.name(pair.key) else {
                throw mismatch([String: Any].self)
            }
            guard fields.updateValue(pair.value, forKey: name) == nil else {
                throw corrupted("Two keys are equal.")
            }
        }
        return KeyedDecodingContainer(Keyed(decoder: self, fields: fields))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        switch value {
        case .array(let elements), .set(let elements), .orderedSet(let elements):
            return Unkeyed(decoder: self, elements: elements)
        default: throw mismatch([Any].self)
        }
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    private static func name(_ key: PropertyValue) -> String? {
        if case .string(let name) = key { name } else { nil }
    }

    private static func integerName(_ key: PropertyValue) -> String? {
        if case .integer(let number) = key { String(number) } else { nil }
    }

    /// Returns a decoder for the value at `key`.
    func nested(_ value: PropertyValue, _ key: any CodingKey) -> PropertyDecoder {
        PropertyDecoder(value: value, codingPath: codingPath + [key], depth: depth + 1)
    }

    /// Returns a decoder for a type that decodes the value itself.
    func opened(_ value: PropertyValue, _ key: any CodingKey) -> PropertyDecoder {
        var decoder = nested(value, key)
        decoder.readParts = readParts?.opened(value, key.stringValue)
        return decoder
    }

    // MARK: Errors, which contain no values

    func mismatch(_ type: Any.Type) -> DecodingError {
        if case .null = value {
            return .valueNotFound(type, context("There is null where a \(type) was expected."))
        }
        return .typeMismatch(type, context("There is \(value.description), which is not exactly a \(type)."))
    }

    func corrupted(_ reason: String) -> DecodingError { .dataCorrupted(context(reason)) }

    func context(_ description: String) -> DecodingError.Context {
        DecodingError.Context(codingPath: codingPath, debugDescription: description)
    }

    // MARK: Values

    /// Decodes a value. Every value goes through here.
    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard depth < Self.maximumDepth else { throw corrupted("The values are nested too deeply.") }
        if let value = try special(type) { return value }
        var inner = PropertyDecoder(value: value, codingPath: codingPath, depth: depth + 1)
        inner.hasIntegerKeys = type is any IntegerKeys.Type
        let readParts = ReadParts(value)
        inner.readParts = readParts
        let decoded = try Value(from: inner)
        if let whole = self.readParts {
            whole.add(readParts)
        } else if !readParts.isComplete {
            throw SourceError.unsupported("the type does not decode all of the data")
        }
        if let entries = decoded as? any UniqueEntries, !entries.holdAll(of: value) { throw mismatch(type) }
        // Float16 decodes itself as a rounded Float.
        if let number = decoded as? any BinaryFloatingPoint, !isEqual(number) { throw mismatch(type) }
        return decoded
    }

    /// Types whose own decoding would accept other values.
    private func special<Value: Decodable>(_ type: Value.Type) throws -> Value? {
        let result: Any?
        switch (type, value) {
        case (is Date.Type, .date(let date)):
            // Foundation ends the process that prints it.
            if date.timeIntervalSinceReferenceDate.isNaN {
                throw SourceError.unsupported("a date is not a number")
            }
            result = date
        case (is Data.Type, .data(let data)): result = data
        case (is URL.Type, .url(let url)): result = url
        case (is URL.Type, .string(let text)):
            result = URL(string: text).flatMap { $0.absoluteString == text ? $0 : nil }
        case (is UUID.Type, .uuid(let uuid)): result = uuid
        case (is UUID.Type, .string(let text)):
            result = UUID(uuidString: text).flatMap { $0.uuidString == text.uppercased() ? $0 : nil }
        case (is Decimal.Type, _): result = decimal
        case (is Date.Type, _), (is Data.Type, _), (is URL.Type, _), (is UUID.Type, _): result = nil
        default: return nil
        }
        guard let result = result as? Value else { throw mismatch(type) }
        return result
    }

    func boolean() throws -> Bool {
        switch value {
        case .boolean(let value), .booleanOrNumber(let value): return value
        default: throw mismatch(Bool.self)
        }
    }

    func string() throws -> String {
        guard case .string(let text) = value else { throw mismatch(String.self) }
        return text
    }

    func integer<Number: FixedWidthInteger>(_ type: Number.Type) throws -> Number {
        let number: Number? =
            switch value {
            case .integer(let number): Number(exactly: number)
            case .unsigned(let number): Number(exactly: number)
            case .booleanOrNumber(let isOne): isOne ? 1 : 0
            case .real(let number) where number != 0 || number.sign == .plus: Number(exactly: number)
            default: nil
            }
        guard let number else { throw mismatch(type) }
        return number
    }

    func real<Number: BinaryFloatingPoint>(_ type: Number.Type) throws -> Number {
        let number: Number? =
            switch value {
            case .integer(let number): Number(exactly: number)
            case .unsigned(let number): Number(exactly: number)
            case .booleanOrNumber(let isOne): isOne ? 1 : 0
            case .real(let number): number.isNaN ? Number(number) : Number(exactly: number)
            default: nil
            }
        guard let number else { throw mismatch(type) }
        return number
    }

    private func isEqual(_ number: some BinaryFloatingPoint) -> Bool {
        guard let original = try? real(Double.self) else { return false }
        return original == Double(number) || original.isNaN && number.isNaN
    }

    /// Accepts whole numbers, and fractions whose exact value fits into a Decimal's 38 digits.
    private var decimal: Decimal? {
        switch value {
        case .integer(let number): return Decimal(number)
        case .unsigned(let number): return Decimal(number)
        case .booleanOrNumber(let isOne): return isOne ? 1 : 0
        case .decimal(let number): return number
        case .real(let number):
            guard number != 0 || number.sign == .plus, let (digits, scale) = Self.decimalDigits(number) else {
                return nil
            }
            return Decimal(string: "\(number < 0 ? "-" : "")\(digits)e-\(scale)", locale: nil)
        default: return nil
        }
    }

    /// Returns `digits` / 10^`scale`, exactly.
    private static func decimalDigits(_ number: Double) -> (digits: UInt128, scale: Int)? {
        if let whole = UInt128(exactly: number.magnitude) {
            return whole < limit ? (whole, 0) : nil
        }
        guard number.isFinite else { return nil }
        let scale = number.significandWidth - Int(number.exponent)
        guard (1...52).contains(scale), var digits = UInt128(exactly: number.magnitude * Double(1 << scale))
        else {
            return nil
        }
        for _ in 0..<scale {
            let (product, isTooLarge) = digits.multipliedReportingOverflow(by: 5)
            guard !isTooLarge, product < limit else { return nil }
            digits = product
        }
        return (digits, scale)
    }

    /// 10^38.
    private static let limit: UInt128 = 100_000_000_000_000_000_000_000_000_000_000_000_000
}

/// A collection without order that drops equal elements.
private protocol UniqueEntries {
    func holdAll(of value: PropertyValue) -> Bool
}

extension Set: UniqueEntries {
    func holdAll(of value: PropertyValue) -> Bool {
        switch value {
        case .array(let elements), .set(let elements): elements.count == count
        default: false
        }
    }
}

extension Dictionary: UniqueEntries {
    func holdAll(of value: PropertyValue) -> Bool {
        switch value {
        case .dictionary(let pairs): pairs.count == count
        // Swift encodes dictionaries with other keys than strings and integers as alternating keys and values.
        case .array(let elements): elements.count == 2 * count
        default: false
        }
    }
}

/// `[Int: Value]`, whose own decoding would accept the string "05" as a key.
private protocol IntegerKeys {}
extension Dictionary: IntegerKeys where Key == Int {}

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

extension PropertyDecoder {
    /// Records which entries or elements of a value have been decoded. The others would be lost with the old
    /// item.
    final class ReadParts {
        var names: Set<String> = []
        private let value: PropertyValue
        private var count = 0
        private var opened: [String: ReadParts] = [:]

        init(_ value: PropertyValue) { self.value = value }

        /// The elements up to this index have been decoded.
        func reach(_ index: Int) { count = max(count, index) }

        /// Records for nested values that are decoded piece by piece.
        func opened(_ value: PropertyValue, _ name: String) -> ReadParts {
            let inner = opened[name] ?? ReadParts(value)
            opened[name] = inner
            return inner
        }

        /// Adds what another part of the type has decoded of the same value.
        func add(_ part: ReadParts) {
            names.formUnion(part.names)
            reach(part.count)
            for (name, inner) in part.opened { opened(inner.value, name).add(inner) }
        }

        var isComplete: Bool {
            guard opened.values.allSatisfy(\.isComplete) else { return false }
            switch value {
            case .dictionary(let pairs): return names.count == pairs.count
            case .array(let elements), .set(let elements), .orderedSet(let elements):
                return count == elements.count
            default: return true
            }
        }
    }
}
