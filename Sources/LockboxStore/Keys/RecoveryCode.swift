public import LockboxCore
import LockboxPlatform

/// A code that opens a store when the passcode is forgotten or the hardware is lost. Print it, or write it down.
///
/// It has 130 random bits, written as 26 characters of Crockford's base32, and two check characters that detect any one or
/// two mistyped characters: `7KTM-2V9C-…`, seven groups of four. Case, spaces and hyphens do not matter, O is read as 0, and
/// I and L as 1.
public struct RecoveryCode: Sendable {
    /// The characters' numbers, 0 to 31, and the two that show a mistake.
    private let symbols: WipedBytes

    private static let symbolCount = 26
    private static let checkedCount = symbolCount + 2
    private static let groupLength = 4
    /// Crockford's base32 has no I, L, O and U.
    private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// Creates a new random code.
    public init() {
        symbols = WipedBytes(count: Self.checkedCount) { symbols in
            Sodium.fillRandom(symbols.part(..<Self.symbolCount))
            for index in 0..<Self.symbolCount { symbols[index] &= 31 }
            // The last two are still zeros. With this remainder in their place, that of the whole code is 0.
            let remainder = Self.remainder(symbols)
            (symbols[Self.symbolCount], symbols[Self.symbolCount + 1]) = remainder
        }
    }

    /// Creates a code from text that the user has typed.
    ///
    /// - Parameter text: The code. The caller's own string cannot be wiped.
    /// - Throws: ``LockboxError/invalidPasscode(reason:)`` if the code has an invalid character, the wrong length or a wrong
    ///   check character.
    package init(_ text: String) throws(LockboxError) {
        var bytes = Array(text.utf8)
        defer { Sodium.wipe(&bytes) }
        let code = bytes.withUnsafeBytes { bytes in
            Result { () throws(LockboxError) in try RecoveryCode(typed: bytes) }
        }
        self = try code.get()
    }

    /// Creates a code from bytes that the user has typed. Keeps no copy of the bytes.
    ///
    /// - Parameter typed: The code, in UTF-8.
    /// - Throws: ``LockboxError/invalidPasscode(reason:)`` if the code has an invalid character, the wrong length or a wrong
    ///   check character.
    @_spi(Extensions)
    public init(typed: UnsafeRawBufferPointer) throws(LockboxError) {
        symbols = try WipedBytes(count: Self.checkedCount) { symbols throws(LockboxError) in
            var count = 0
            for character in typed where !Self.separators.contains(character) {
                guard let symbol = Self.symbol(character) else {
                    throw .invalidPasscode(
                        reason: "a recovery code contains only letters and digits, and never U"
                    )
                }
                if count < symbols.count { symbols[count] = symbol }
                count += 1
            }
            guard count == symbols.count else {
                throw .invalidPasscode(
                    reason: "a recovery code has \(symbols.count) characters, and this has \(count)"
                )
            }
            guard Self.remainder(symbols) == (0, 0) else {
                throw .invalidPasscode(reason: "a character of the recovery code is mistyped")
            }
        }
    }

    /// The code in the form to write down. Secret: with the device key, it opens the store.
    public var text: String {
        symbols.withBytes { symbols in
            let characters = symbols.map { Self.alphabet[Int($0)] }
            let groups = stride(from: 0, to: characters.count, by: Self.groupLength).map {
                String(decoding: characters[$0..<($0 + Self.groupLength)], as: UTF8.self)
            }
            return groups.joined(separator: "-")
        }
    }

    /// A key of 26 bytes: the characters without separators and check characters.
    func key() throws -> SecretKey {
        try SecretKey(count: Self.symbolCount) { key in
            symbols.withBytes { symbols in
                for index in 0..<Self.symbolCount { key[index] = Self.alphabet[Int(symbols[index])] }
            }
        }
    }

    private static let separators = Array(" -\n\r\t".utf8)

    private static func symbol(_ character: UInt8) -> UInt8? {
        let upper = character & 0xDF
        let isLetter = (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(upper)
        let read: UInt8 =
            switch isLetter ? upper : character {
            case UInt8(ascii: "O"): UInt8(ascii: "0")
            case UInt8(ascii: "I"), UInt8(ascii: "L"): UInt8(ascii: "1")
            case let other: other
            }
        return alphabet.firstIndex(of: read).map { UInt8($0) }
    }

    /// The remainder of the code, as a polynomial over GF(32), by (x + 1)(x + 2): a Reed-Solomon code with the distance
    /// 3, which finds any two wrong characters.
    private static func remainder(_ symbols: UnsafeMutableRawBufferPointer) -> (UInt8, UInt8) {
        var (first, second): (UInt8, UInt8) = (0, 0)
        for symbol in symbols {
            let factor = first
            first = second ^ product(factor, 3)
            second = symbol ^ product(factor, 2)
        }
        return (first, second)
    }

    /// In GF(32) with the polynomial x⁵ + x² + 1.
    private static func product(_ a: UInt8, _ b: UInt8) -> UInt8 {
        var (a, product) = (a, UInt8(0))
        for bit in 0..<5 {
            if b >> bit & 1 == 1 { product ^= a }
            a <<= 1
            if a & 32 != 0 { a ^= 0b100101 }
        }
        return product
    }
}

extension RecoveryCode {
    /// Takes the same time whatever the characters are.
    @_spi(Extensions)
    public func isSame(as other: RecoveryCode) -> Bool {
        symbols.withBytes { mine in other.symbols.withBytes { Sodium.isEqual(mine, $0) } }
    }
}

/// Shows no ``text``.
extension RecoveryCode: Undescribed {}
