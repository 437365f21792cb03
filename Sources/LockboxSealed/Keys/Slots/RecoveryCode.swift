public import LockboxCore
import LockboxSodium

/// A code that opens a store when the passcode is forgotten or the hardware is lost. Print it, or write it down.
///
/// It has 130 random bits, written as 26 characters of Crockford's base32, and two more characters that show whether one
/// or two of them were mistyped: `7KTM-2V9C-…`, seven groups of four. Case, spaces and hyphens do not matter, O is read
/// as 0, and I and L as 1.
public struct RecoveryCode: Sendable, Equatable {
    /// The characters' numbers, 0 to 31, without the last two.
    private let symbols: [UInt8]

    private static let symbolCount = 26
    private static let groupLength = 4
    /// Crockford's base32 has no I, L, O and U.
    private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ".utf8)

    /// Makes a new code.
    public init() { symbols = Sodium.randomBytes(Self.symbolCount).map { $0 & 31 } }

    /// Reads a code that somebody has typed.
    ///
    /// - Parameter text: The code.
    /// - Throws: ``LockboxError/invalidPasscode(reason:)`` if a character is wrong, missing or too many.
    public init(_ text: String) throws(LockboxError) {
        try self.init(typed: Array(text.utf8))
    }

    init(typed: [UInt8]) throws(LockboxError) {
        var symbols: [UInt8] = []
        for character in typed where !Self.separators.contains(character) {
            guard let symbol = Self.symbol(character) else {
                throw .invalidPasscode(reason: "a recovery code has only letters and digits, and no U")
            }
            symbols.append(symbol)
        }
        guard symbols.count == Self.symbolCount + 2 else {
            throw .invalidPasscode(
                reason:
                    "a recovery code has \(Self.symbolCount + 2) characters, and this has \(symbols.count)"
            )
        }
        guard Self.remainder(symbols) == [0, 0] else {
            throw .invalidPasscode(reason: "a character of the recovery code is mistyped")
        }
        self.symbols = symbols.dropLast(2)
    }

    /// The code as it is to be written down. Secret: whoever has it and the device key opens the store.
    public var text: String {
        let characters = (symbols + Self.remainder(symbols + [0, 0])).map { Self.alphabet[Int($0)] }
        let groups = stride(from: 0, to: characters.count, by: Self.groupLength).map {
            String(decoding: characters[$0..<($0 + Self.groupLength)], as: UTF8.self)
        }
        return groups.joined(separator: "-")
    }

    /// 26 bytes, the characters without separators and check characters.
    var bytes: [UInt8] { symbols.map { Self.alphabet[Int($0)] } }

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
    private static func remainder(_ symbols: [UInt8]) -> [UInt8] {
        var (first, second): (UInt8, UInt8) = (0, 0)
        for symbol in symbols {
            let factor = first
            first = second ^ product(factor, 3)
            second = symbol ^ product(factor, 2)
        }
        return [first, second]
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

extension RecoveryCode: CustomStringConvertible, CustomReflectable {
    /// A fixed text. Does not show the code, which is ``text``.
    public var description: String { "RecoveryCode" }

    /// Keeps `dump(_:)` from showing the code.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
