public import LockboxPlatform

/// An encoded value and its format.
///
/// Descriptions never show the bytes.
public struct ArchivedValue: Sendable, Hashable {
    /// The maximum size of a value: 16 MiB.
    public static let maximumSize = 16 * 1024 * 1024

    /// The encoded value.
    public let data: Data

    /// The format of ``data``.
    public let format: ValueFormat

    /// Creates a value for a backend to store.
    ///
    /// - Parameters:
    ///   - data: The encoded value.
    ///   - format: The format of `data`.
    /// - Throws: ``LockboxError/valueTooLarge(size:limit:)`` if `data` is larger than ``maximumSize``.
    public init(data: Data, format: ValueFormat) throws(LockboxError) {
        guard data.count <= Self.maximumSize else {
            throw LockboxError.valueTooLarge(size: data.count, limit: Self.maximumSize)
        }
        self.data = data
        self.format = format
    }
}

extension ArchivedValue: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The size and the format, not the bytes.
    public var description: String { "ArchivedValue(\(data.count) bytes, \(format))" }

    /// Same as ``description``.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from showing the bytes.
    public var customMirror: Mirror { Mirror(self, children: ["size": data.count, "format": format]) }
}
