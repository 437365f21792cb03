public import LockboxPlatform

/// How values become bytes. ``JSONValueCoder`` unless the app gives ``Lockbox`` another.
///
/// A top-level `Data` never passes through a coder: it is stored as it is.
public protocol ValueCoder: Sendable {
    /// What the coder writes: stored with every item, and compared before ``decode(_:from:)`` is called, so that
    /// a coder never sees bytes that another one wrote. An app's own coder takes a number from 128 on.
    var format: ValueFormat { get }

    /// The bytes of a value.
    ///
    /// - Parameter value: What is to be archived.
    /// - Throws: Any error. It becomes the `underlying` one of ``LockboxError/encodingFailed(key:underlying:)``.
    func encode<Value: Encodable>(_ value: Value) throws -> Data

    /// The value of bytes that ``encode(_:)`` made.
    ///
    /// - Parameters:
    ///   - type: The type that is asked for, which need not be the one that was archived.
    ///   - data: The bytes.
    /// - Throws: Any error. It becomes the `underlying` one of ``LockboxError/decodingFailed(key:type:underlying:)``.
    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value
}
