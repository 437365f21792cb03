public import LockboxCore
public import LockboxPlatform

/// Encodes values as bytes and decodes them. ``Lockbox`` uses JSON unless the app supplies another coder: Foundation's coders,
/// where dates keep all their bits, and NaN, infinities and a single value at the top level are allowed. A value can be read as
/// another type if both have the same JSON: an `Int` as a `Double`, a `URL` as a `String`.
///
/// A top-level `Data` value is stored as it is, without a coder.
public protocol ValueCoder: Sendable {
    /// The format that this coder writes.
    ///
    /// It is stored with every item and compared before ``decode(_:from:)`` is called, so a coder never sees
    /// bytes that another coder wrote. An app's own coder uses a number from 128 to 255.
    var format: ValueFormat { get }

    /// Returns the encoded bytes of a value.
    ///
    /// - Parameter value: The value to encode.
    /// - Throws: Any error. It becomes the `underlying` error of
    ///   ``LockboxError/encodingFailed(key:underlying:)``.
    func encode<Value: Encodable>(_ value: Value) throws -> Data

    /// Returns the value decoded from bytes that ``encode(_:)`` returned.
    ///
    /// - Parameters:
    ///   - type: The requested type, which may differ from the archived one.
    ///   - data: The encoded bytes.
    /// - Throws: Any error. It becomes the `underlying` error of ``LockboxError/decodingFailed(key:type:underlying:)``, or of
    ///   ``LockboxError/encodingFailed(key:underlying:)`` when a value is stored, which is decoded once as a test.
    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value
}

/// Encodes values with Foundation's JSON coders, without loss.
@_spi(Extensions)
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
        // Otherwise each process has an order of its own, and an update that changes nothing would change the item's bytes.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
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

/// The type of an optional that can be decoded.
protocol OptionalType {
    static func unarchived(by lockbox: Lockbox, _ value: ArchivedValue, _ key: String) throws(LockboxError)
        -> Self
}

extension Optional: OptionalType where Wrapped: Decodable {
    static func unarchived(by lockbox: Lockbox, _ value: ArchivedValue, _ key: String) throws(LockboxError)
        -> Self
    {
        try lockbox.unarchive(Wrapped.self, value, key: key)
    }
}

/// An optional. Where its type is a generic parameter, Swift does not know that it is one.
protocol OptionalValue {
    /// Returns nil for nil.
    func archived(by lockbox: Lockbox, _ key: String) throws(LockboxError) -> ArchivedValue?
}

extension Optional: OptionalValue where Wrapped: Encodable {
    func archived(by lockbox: Lockbox, _ key: String) throws(LockboxError) -> ArchivedValue? {
        guard let self else { return nil }
        return try lockbox.archive(self, key)
    }
}
