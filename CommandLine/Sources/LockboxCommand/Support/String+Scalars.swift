// By Unicode scalars, where the standard library's own methods go by characters: a carriage return and the newline after it
// are one of those, and a text is not found that ends between the two.

extension StringProtocol {
    /// Without whitespace and line breaks at its ends: what Unicode calls so, and as in Foundation the zero width space.
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
