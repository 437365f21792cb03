public import LockboxPlatform

/// A value's bytes and how they are to be read.
///
/// Its description never shows the bytes.
public struct ArchivedValue: Sendable, Hashable {
    /// The largest value: 16 MiB.
    public static let maximumSize = 16 * 1024 * 1024

    /// The encoded value.
    public let data: Data

    /// What ``data`` is an encoding of.
    public let format: ValueFormat

    /// A value for a backend to store.
    ///
    /// - Parameters:
    ///   - data: The encoded value.
    ///   - format: What `data` is an encoding of.
    /// - Throws: ``LockboxError/valueTooLarge(size:limit:)`` over ``maximumSize``.
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

    /// As ``description``.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from showing the bytes.
    public var customMirror: Mirror { Mirror(self, children: ["size": data.count, "format": format]) }
}
