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
                var (input, output) = (0, 0)
                while input < 52 {
                    let end = min(input + 8, 52)
                    var bits: UInt64 = 0
                    while input < end {
                        let digit = Self.digit(characters[input])
                        all |= digit
                        bits = bits << 5 | digit
                        input += 1
                    }
                    if input == 52 {
                        isValid = all < 32 && bits & 15 == 0  // the last character has four bits to spare
                        bits <<= 20
                    }
                    var shift: UInt64 = 40
                    while shift > 0, output < 32 {
                        shift -= 8
                        bytes[output] = UInt8(truncatingIfNeeded: bits >> shift)
                        output += 1
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
                var (input, next) = (0, 0)
                while next < Self.nameLength {
                    let end = min(input + 5, Self.length)
                    var (bits, count) = (UInt64(0), UInt64(0))
                    while input < end {
                        bits = bits << 8 | UInt64(bytes[input])
                        count += 8
                        input += 1
                    }
                    bits <<= 40 - count
                    var shift: UInt64 = 40
                    while shift > 0, next < Self.nameLength {
                        shift -= 5
                        output[next] = Self.character(bits >> shift)
                        next += 1
                    }
                }
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
