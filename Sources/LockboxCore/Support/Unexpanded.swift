/// Text that was to be replaced, and was not: systemd, Docker's `--env-file` and files of other systems leave what a shell would take.
package enum Unexpanded {
    /// Returns what shows it in a path or a key prefix, or nil.
    package static func sign(in text: String) -> String? {
        let scalars = Array(text.unicodeScalars)
        guard let first = scalars.first, let last = scalars.last else { return nil }
        if scalars.contains(where: { $0.properties.generalCategory == .control }) {
            return "has a control character, such as the carriage return of a file from Windows; take it out"
        }
        if first.properties.isWhitespace || last.properties.isWhitespace {
            return "begins or ends with a space; take it out"
        }
        if first == last, first == "\"" || first == "'", scalars.count > 1 {
            return "is in quotes, which are part of it; leave them out"
        }
        if scalars.contains(where: { "${}".unicodeScalars.contains($0) }) || hasSpecifier(text.utf8) {
            return "has $, %, { or }, which no shell or template has replaced; write it out"
        }
        return nil
    }

    /// Whether there is one of systemd's, such as %h. In %2F and the like, two digits follow.
    private static func hasSpecifier(_ text: String.UTF8View) -> Bool {
        let digits = "0123456789ABCDEFabcdef".utf8
        return text.split(separator: UInt8(ascii: "%"), omittingEmptySubsequences: false).dropFirst().contains
        {
            guard let next = $0.first, (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(next | 0x20) else {
                return false
            }
            return $0.count == 1 || !$0.prefix(2).allSatisfy(digits.contains)
        }
    }
}
