import LockboxCore
import LockboxPlatform

/// Parses numbers of JSON and property lists, if an Int64, UInt64 or Double can represent them without loss.
enum NumberText {
    /// Returns a whole number, or nil if it does not fit into 64 bits.
    static func integer(_ text: String) -> PropertyValue? {
        Int64(text).map(PropertyValue.integer) ?? UInt64(text).map(PropertyValue.unsigned)
    }

    /// Returns the Double that, rounded to as many digits as the text has, equals the text, or nil if there is
    /// none.
    static func real(_ text: String) -> PropertyValue? {
        guard let number = Double(text), number.isFinite, let written = parts(text) else { return nil }
        guard !written.digits.isEmpty else { return .real(number) }
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
    private static func parts(_ text: String) -> (digits: Substring, exponent: Int)? {
        let halves = text.lowercased().split(separator: "e", maxSplits: 1)
        guard let mantissa = halves.first, let exponent = halves.count == 1 ? 0 : Int(halves[1]),
            exponent.magnitude < 1 << 32
        else { return nil }
        let fraction = mantissa.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
            .dropFirst()
        var digits = mantissa.filter(\.isNumber)[...].drop { $0 == "0" }
        let trailing = digits.reversed().prefix { $0 == "0" }.count
        digits = digits.dropLast(trailing)
        return (digits, digits.isEmpty ? 0 : exponent - (fraction.first?.count ?? 0) + trailing)
    }
}
