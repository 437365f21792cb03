import LockboxCore

/// A keyed hash of 32 bytes that identifies a prefix, or a prefix and a key.
///
/// As a file name it is written in lower-case base32 (RFC 4648) without padding: always 52 characters, safe on
/// every file system.
struct RecordID: Hashable, Sendable {
    private let words: SIMD4<UInt64>

    static let length = 32
    static let nameLength = 52

    init(_ fill: (UnsafeMutableRawBufferPointer) -> Void) {
        var words = SIMD4<UInt64>()
        Swift.withUnsafeMutableBytes(of: &words, fill)
        self.words = words
    }

    /// Decodes a file name. Returns nil if it does not encode an ID.
    init?(name: String) {
        guard name.utf8.count == Self.nameLength else { return nil }
        var (isValid, all) = (false, UInt64(0))
        var name = name
        self.init { bytes in
            name.withUTF8 { characters in
                // Eight characters make five bytes, and the last four make two.
                for (input, output) in zip(stride(from: 0, to: 52, by: 8), stride(from: 0, to: 35, by: 5)) {
                    var bits: UInt64 = 0
                    for character in characters[input..<min(input + 8, 52)] {
                        let digit = Self.digit(character)
                        all |= digit
                        bits = bits << 5 | digit
                    }
                    if input == 48 {
                        isValid = all < 32 && bits & 15 == 0  // the last character has four bits to spare
                        bits <<= 20
                    }
                    for index in 0..<min(5, 32 - output) {
                        bytes[output + index] = UInt8(truncatingIfNeeded: bits >> (32 - 8 * index))
                    }
                }
            }
        }
        if !isValid { return nil }
    }

    var name: String {
        withBytes { bytes in
            String(unsafeUninitializedCapacity: Self.nameLength) { output in
                // Five bytes make eight characters. The last two bytes make four, with four unused bits.
                for (input, next) in zip(stride(from: 0, to: 30, by: 5), stride(from: 0, to: 48, by: 8)) {
                    let bits = (input..<input + 5).reduce(0) { $0 << 8 | UInt64(bytes[$1]) }
                    for index in 0..<8 { output[next + index] = Self.character(bits >> (35 - 5 * index)) }
                }
                let bits = (UInt64(bytes[30]) << 8 | UInt64(bytes[31])) << 4
                for index in 0..<4 { output[48 + index] = Self.character(bits >> (15 - 5 * index)) }
                return Self.nameLength
            }
        }
    }

    func withBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withUnsafeBytes(of: words, body)
    }

    private static func character(_ bits: UInt64) -> UInt8 {
        let digit = UInt8(truncatingIfNeeded: bits & 31)
        return digit < 26 ? UInt8(ascii: "a") + digit : UInt8(ascii: "2") + digit - 26
    }

    /// Returns 32 or more if it is none. Without branches, which could not be predicted.
    private static func digit(_ character: UInt8) -> UInt64 {
        let (letter, number) = (character &- UInt8(ascii: "a"), character &- UInt8(ascii: "2"))
        return UInt64(letter < 26 ? letter : number < 6 ? number + 26 : 32)
    }
}
