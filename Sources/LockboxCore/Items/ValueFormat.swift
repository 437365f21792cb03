/// The format of an archived value. Stored, encrypted, with every item.
///
/// The numbers 0 to 127 are reserved for Lockbox. An app's own ``ValueCoder`` uses a number from 128 to 255.
public struct ValueFormat: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// The stored number.
    public let rawValue: UInt8

    /// Creates a format from its number, known or not.
    ///
    /// - Parameter rawValue: 0 to 127 are reserved for Lockbox; 128 to 255 are for apps.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The value's bytes as they are, for a top-level `Data`.
    public static let data = ValueFormat(rawValue: 1)

    /// JSON, as written by ``JSONValueCoder``.
    public static let json = ValueFormat(rawValue: 2)

    /// Text written by Lockbox 2. It does not say which type it encodes; the reader must know.
    public static let lockbox2 = ValueFormat(rawValue: 3)

    /// The format's name, or its number if it is unknown.
    public var description: String {
        switch self {
        case .data: "data"
        case .json: "JSON"
        case .lockbox2: "Lockbox 2's text"
        default: "format \(rawValue)"
        }
    }
}
