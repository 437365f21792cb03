import LockboxCore
import LockboxPlatform

/// Parses numbers of JSON and property lists, if an Int64, UInt64 or Double can represent them without loss.
enum NumberText {
    /// Returns a whole number, or nil if it does not fit into 64 bits.
    static func integer(_ text: String) -> PropertyValue? {
        Int64(text).map(PropertyValue.integer) ?? UInt64(text).map(PropertyValue.unsigned)
    }

    /// Returns a whole number as Apple's reader of XML property lists accepts it: an optional sign and decimal
    /// digits, or `0x` and hexadecimal digits. Spaces may precede the sign and the digits. Nil if it does not fit
    /// into 64 bits.
    static func propertyListInteger(_ text: String) -> PropertyValue? {
        var rest = text.utf8.drop(while: \.isWhitespace)
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") {
            rest = rest.dropFirst().drop(while: \.isWhitespace)
        }
        let isHexadecimal = rest.starts(with: "0x".utf8) || rest.starts(with: "0X".utf8)
        if isHexadecimal { rest = rest.dropFirst(2) }
        // A second sign is none of the digits.
        guard let first = rest.first, first.isDigit || first.isLetter,
            let magnitude = UInt64(Substring(rest), radix: isHexadecimal ? 16 : 10)
        else { return nil }
        guard isNegative else { return PropertyValue(magnitude) }
        return magnitude <= Int64.min.magnitude ? .integer(Int64(truncatingIfNeeded: 0 &- magnitude)) : nil
    }

    /// Returns the Double that, rounded to as many digits as the text has, equals the text, or nil if there is
    /// none.
    static func real(_ text: String) -> PropertyValue? {
        guard let number = Double(text), number.isFinite, let written = parts(text) else { return nil }
        // A Double holds every number of up to 15 digits, unless it is among the smallest.
        if written.digits.isEmpty || written.digits.count <= 15 && number.isNormal { return .real(number) }
        guard written.digits.count <= 800 else { return nil }
        let again = scientific(number, fractionDigits: written.digits.count - 1)
        guard let read = parts(again), read == written else { return nil }
        return .real(number)
    }

    /// Formats a number like `%.*e` in C.
    private static func scientific(_ number: Double, fractionDigits: Int) -> String {
        withVaList([CInt(fractionDigits), number]) { arguments in
            // Room for sign, one digit, point, exponent and the terminating zero.
            let count = fractionDigits + 16
            return withUnsafeTemporaryAllocation(of: CChar.self, capacity: count) { buffer in
                vsnprintf(buffer.baseAddress!, count, "%.*e", arguments)
                return String(cString: buffer.baseAddress!)
            }
        }
    }

    /// Returns the digits without leading and trailing zeros, and the exponent of the last one.
    private static func parts(_ text: String) -> (digits: [UInt8], exponent: Int)? {
        var digits: [UInt8] = []
        var (exponent, fraction, trailing) = (0, 0, 0)
        var isFraction = false
        var rest = ByteCursor(Array(text.utf8))
        if !rest.take("-") { _ = rest.take("+") }
        while let byte = rest.next {
            rest.advance()
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if isFraction { fraction += 1 }
                if byte != UInt8(ascii: "0") || !digits.isEmpty { digits.append(byte) }
                trailing = byte == UInt8(ascii: "0") && !digits.isEmpty ? trailing + 1 : 0
            case UInt8(ascii: ".") where !isFraction: isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                guard let number = Int(String(utf8: rest.taking { _ in true })), number.magnitude < 1 << 32
                else { return nil }
                exponent = number
            default: return nil
            }
        }
        digits.removeLast(trailing)
        return (digits, digits.isEmpty ? 0 : exponent - fraction + trailing)
    }
}
