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
        // Of `bits`, `count` are not in a byte yet.
        var (bits, count, all) = (UInt64(0), UInt64(0), UInt64(0))
        var name = name
        self.init { bytes in
            var output = 0
            name.withUTF8 { characters in
                for character in UnsafeRawBufferPointer(characters) {
                    let digit = Self.digit(character)
                    all |= digit
                    bits = bits << 5 | digit
                    count += 5
                    guard count >= 8 else { continue }
                    count -= 8
                    bytes[output] = UInt8(truncatingIfNeeded: bits >> count)
                    output += 1
                }
            }
        }
        // The last character has four bits to spare.
        guard all < 32, bits & 15 == 0 else { return nil }
    }

    var name: String {
        withBytes { bytes in
            String(unsafeUninitializedCapacity: Self.nameLength) { output in
                // Of `bits`, `count` are in no character yet.
                var (bits, count, next) = (UInt64(0), UInt64(0), 0)
                for byte in bytes {
                    bits = bits << 8 | UInt64(byte)
                    count += 8
                    while count >= 5 {
                        count -= 5
                        output[next] = Self.character(bits >> count)
                        next += 1
                    }
                }
                output[next] = Self.character(bits << 4)  // one bit is left, and four are zero
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
