public import LockboxPlatform

/// Foundation's JSON, set up so that what goes in comes out: dates exact to the last bit, NaN and infinities,
/// single values at the top level.
///
/// The JSON decides which types can be read as which others: an `Int` reads as a `Double`, a `URL` as a
/// `String`.
public struct JSONValueCoder: ValueCoder {
    /// ``ValueFormat/json``.
    public let format = ValueFormat.json

    /// The coder that ``Lockbox`` uses by default.
    public init() {}

    /// The value as JSON.
    ///
    /// - Parameter value: Anything that JSON can hold; infinities and NaN become texts.
    /// - Throws: `EncodingError`, also for 512 levels of nesting and more, which Foundation would not read again.
    public func encode<Value: Encodable>(_ value: Value) throws -> Data {
        let encoder = JSONEncoder()
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: Self.infinity,
            negativeInfinity: Self.negativeInfinity,
            nan: Self.nan
        )
        return try encoder.encode(value)
    }

    /// The value of such JSON.
    ///
    /// - Parameters:
    ///   - type: What the JSON is to be read as. Members that it does not know are ignored.
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

    // Long enough that no string is archived by chance that would read as a number.
    private static let infinity = "lockbox.float.+infinity"
    private static let negativeInfinity = "lockbox.float.-infinity"
    private static let nan = "lockbox.float.nan"
}
