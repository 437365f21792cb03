public import LockboxPlatform

/// Encodes values as bytes and decodes them. ``Lockbox`` uses ``JSONValueCoder`` unless the app supplies
/// another coder.
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
    /// - Throws: Any error. It becomes the `underlying` error of
    ///   ``LockboxError/decodingFailed(key:type:underlying:)``.
    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value
}
