import Foundation

/// Foundation's JSON, set up so that what goes in comes out: dates exact to the last bit, NaN and infinities,
/// single values at the top level.
///
/// The JSON decides which types can be read as which others: an `Int` reads as a `Double`, a `URL` as a
/// `String`.
public struct JSONValueCoder: ValueCoder {
    /// The deepest nesting of arrays and objects. Foundation writes more than it can read, which is 512; deeper
    /// values are refused before they are stored.
    public static let maximumDepth = 512

    /// ``ValueFormat/json``.
    public let format = ValueFormat.json

    /// The coder that ``Lockbox`` uses by default.
    public init() {}

    /// The value as JSON.
    ///
    /// - Throws: `EncodingError`, also if the value nests deeper than ``maximumDepth``.
    public func encode<Value: Encodable>(_ value: Value) throws -> Data {
        let encoder = JSONEncoder()
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: Self.infinity,
            negativeInfinity: Self.negativeInfinity,
            nan: Self.nan
        )
        let data = try encoder.encode(value)
        guard Self.depth(of: data) <= Self.maximumDepth else {
            let reason = "nested deeper than \(Self.maximumDepth) levels"
            throw EncodingError.invalidValue(value, .init(codingPath: [], debugDescription: reason))
        }
        return data
    }

    /// The value of such JSON.
    ///
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

    private static func depth(of json: Data) -> Int {
        if json.count < 2 * maximumDepth { return 0 }  // too short to be that deep
        var depth = 0
        var deepest = 0
        var bytes = json.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "\""):
                while let next = bytes.next(), next != UInt8(ascii: "\"") {
                    if next == UInt8(ascii: "\\") { _ = bytes.next() }
                }
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                deepest = max(deepest, depth)
            case UInt8(ascii: "]"), UInt8(ascii: "}"):
                depth -= 1
            default:
                break
            }
        }
        return deepest
    }
}
