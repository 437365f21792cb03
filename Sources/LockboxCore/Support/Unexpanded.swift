/// Text that was to be replaced, and was not: systemd, Docker's `--env-file` and files of other systems leave what a shell would take.
package enum Unexpanded {
    /// Returns what shows it in a path or a key prefix, or nil.
    package static func sign(in text: String) -> String? {
        let ends = [text.unicodeScalars.first, text.unicodeScalars.last].compactMap(\.self)
        if text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) {
            return "has a control character, such as the carriage return of a file from Windows; take it out"
        }
        if ends.contains(where: \.properties.isWhitespace) {
            return "begins or ends with a space; take it out"
        }
        if ends.count == 2, ends[0] == ends[1], "\"'".unicodeScalars.contains(ends[0]), text.utf8.count > 1 {
            return "is in quotes, which are part of it; leave them out"
        }
        let isSpecifier = text.contains(/%[A-Za-z]/) && !text.contains(/%[0-9A-Fa-f]{2}/)
        if isSpecifier || text.contains(where: "${}".contains) {
            return "has $, %, { or }, which no shell or template has replaced; write it out"
        }
        return nil
    }
}
