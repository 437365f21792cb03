/// How an archived value's bytes are to be read. Stored, sealed, with every item.
///
/// Lockbox keeps the numbers 0 to 127 for itself; an app's own ``ValueCoder`` takes one from 128 on.
public struct ValueFormat: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
    /// The number that is stored.
    public let rawValue: UInt8

    /// Any format, known or not.
    ///
    /// - Parameter rawValue: 0 to 127 are Lockbox's; an app's own are from 128 on.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The bytes themselves: a top-level `Data`.
    public static let data = ValueFormat(rawValue: 1)

    /// JSON, as ``JSONValueCoder`` writes it.
    public static let json = ValueFormat(rawValue: 2)

    /// What Lockbox 2 wrote: text, whose type only the reader knows.
    public static let lockbox2 = ValueFormat(rawValue: 3)

    /// The format's name, or its number.
    public var description: String {
        switch self {
        case .data: "data"
        case .json: "JSON"
        case .lockbox2: "Lockbox 2's text"
        default: "format \(rawValue)"
        }
    }
}
