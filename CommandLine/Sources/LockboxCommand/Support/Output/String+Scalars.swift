// These methods compare Unicode scalars. The standard library's compare characters, where a carriage return and
// a newline form a single one, so text that ends between them is not found.

extension StringProtocol {
    /// Removes whitespace and line breaks at both ends: Unicode whitespace and, as in Foundation, the zero
    /// width space.
    var trimmingWhitespace: String {
        let isWhitespace: (Unicode.Scalar) -> Bool = { $0.properties.isWhitespace || $0 == "\u{200B}" }
        let start = unicodeScalars.drop(while: isWhitespace).startIndex
        let end = unicodeScalars[start...].lastIndex { !isWhitespace($0) }
        return end.map { String(self[start...$0]) } ?? ""
    }

    func containsLiterally(_ other: String) -> Bool { unicodeScalars.contains(other.unicodeScalars) }

    func replacingLiterally(_ other: String, with replacement: String) -> String {
        String(String(self).unicodeScalars.replacing(other.unicodeScalars, with: replacement.unicodeScalars))
    }
}
