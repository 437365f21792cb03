import LockboxCore
import LockboxPlatform

/// Numbers as JSON and property lists write them, if they come out of an Int64, UInt64 or Double as they went in.
enum NumberText {
    /// A whole number; nil over 64 bits.
    static func integer(_ text: String) -> PropertyValue? {
        Int64(text).map(PropertyValue.integer) ?? UInt64(text).map(PropertyValue.unsigned)
    }

    /// The Double that the text is; nil if none is, rounded to as many digits as the text has.
    static func real(_ text: String) -> PropertyValue? {
        guard let number = Double(text), number.isFinite, let written = parts(text) else { return nil }
        guard !written.digits.isEmpty else { return .real(number) }
        guard written.digits.count <= 800 else { return nil }
        let again = scientific(number, fractionDigits: written.digits.count - 1)
        guard let read = parts(again), read == written else { return nil }
        return .real(number)
    }

    /// As C's `%.*e` writes it.
    private static func scientific(_ number: Double, fractionDigits: Int) -> String {
        withVaList([CInt(fractionDigits), number]) { arguments in
            // Sign, one digit, a point, exponent, and the zero at the end.
            let count = fractionDigits + 16
            return withUnsafeTemporaryAllocation(of: CChar.self, capacity: count) { buffer in
                vsnprintf(buffer.baseAddress!, count, "%.*e", arguments)
                return String(cString: buffer.baseAddress!)
            }
        }
    }

    /// The digits but for zeros at either end, and the power of ten of the last one.
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
