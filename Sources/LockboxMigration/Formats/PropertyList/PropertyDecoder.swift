import LockboxCore
import LockboxPlatform

/// Decodes a ``PropertyValue`` without lossy conversions.
struct PropertyDecoder: Decoder {
    let value: PropertyValue
    let codingPath: [any CodingKey]
    let depth: Int
    /// Whether keys are decoded for a dictionary with `Int` keys.
    var hasIntegerKeys = false
    /// Nil while the value has not been decoded.
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
