public import LockboxPlatform

/// Encodes values with Foundation's JSON coders, without loss.
///
/// Dates are stored with all their bits. NaN, infinities and a single value at the top level are allowed.
///
/// A value can be read as another type if both have the same JSON: an `Int` as a `Double`, a `URL` as a `String`.
public struct JSONValueCoder: ValueCoder {
    /// ``ValueFormat/json``.
    public let format = ValueFormat.json

    /// Creates the coder that ``Lockbox`` uses by default.
    public init() {}

    /// Returns a value encoded as JSON.
    ///
    /// - Parameter value: The value to encode. NaN and infinities become strings.
    /// - Throws: `EncodingError` if the value cannot be encoded, or is nested 512 levels deep or more, which
    ///   Foundation cannot decode.
    public func encode<Value: Encodable>(_ value: Value) throws -> Data {
        let encoder = JSONEncoder()
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: Self.infinity,
            negativeInfinity: Self.negativeInfinity,
            nan: Self.nan
        )
        return try encoder.encode(value)
    }

    /// Returns the value decoded from JSON.
    ///
    /// - Parameters:
    ///   - type: The type to decode. JSON members that it does not know are ignored.
    ///   - data: JSON in UTF-8.
    /// - Throws: `DecodingError`.
    public func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        let decoder = JSONDecoder()
        decoder.nonConformingFloatDecodingStrategy = .convertFromString(
            positiveInfinity: Self.infinity,
            negativeInfinity: Self.negativeInfinity,
            nan: Self.nan
        )
        return try decoder.decode(type, from: data)
    }

    // Long enough that no archived string is mistaken for a number.
    private static let infinity = "lockbox.float.+infinity"
    private static let negativeInfinity = "lockbox.float.-infinity"
    private static let nan = "lockbox.float.nan"
}
