import LockboxCore

/// Reads netrc files: `machine` or `default`, each followed by `login` or `user`, `password`, `account`, `port` and
/// `protocol`, in lower case.
///
/// An entry is named `login@machine`, or `machine` if it has no login; for `default`, likewise. Its port, or else its protocol,
/// follows after a colon, because one machine may have several. Its value is a dictionary of its fields, with `user` as `login`. `macdef` and the lines up to the next empty one are skipped, and are kept when the
/// machine before them is removed. Lines that begin with `#` are skipped too. A value may be in double quotes,
/// with `\"` and `\\`. Elsewhere a backslash is refused, because programs interpret it differently.
struct NetrcText {
    private var cursor: ByteCursor

    static func entries(_ bytes: [UInt8]) throws(SourceError) -> [SourceFile.Entry] {
        var text = NetrcText(cursor: ByteCursor(bytes))
        _ = text.cursor.take("\u{FEFF}")
        var entries: [SourceFile.Entry] = []
        while true {
            try text.skipSpace()
            let start = text.cursor.position
            switch try text.keyword() {
            case "": return entries
            case "machine": try entries.append(text.entry(["machine": text.value()], start))
            case "default": try entries.append(text.entry([:], start))
            case "macdef": try text.skipMacro()
            default:
                throw text.cursor.malformed(
                    "a word is none of machine, default, login, user, password, account, port, protocol and macdef"
                )
            }
        }
    }

    private mutating func entry(_ machine: [String: String], _ start: Int) throws(SourceError)
        -> SourceFile.Entry
    {
        var fields = machine
        var end = cursor
        while true {
            try skipSpace()
            var field = try keyword()
            if field == "user" { field = "login" }
            guard Self.fields.contains(field) else { break }
            guard fields.updateValue(try value(), forKey: field) == nil else {
                throw cursor.malformed("an entry has the same field twice")
            }
            end = cursor
        }
        cursor = end
        cursor.skip(\.isSpaceOrTab)
        _ = cursor.take("\r\n") || cursor.take("\n")
        let host = fields["machine"] ?? "default"
        let pairs = (["machine"] + Self.fields).compactMap { name in
            fields[name].map { PropertyValue.Pair(key: .string(name), value: .string($0)) }
        }
        let service = (fields["port"] ?? fields["protocol"]).map { ":\($0)" } ?? ""
        return SourceFile.Entry(
            name: "\(fields["login"].map { "\($0)@" } ?? "")\(host)\(service)",
            value: .success(.dictionary(pairs)),
            range: start..<cursor.position
        )
    }

    private static let fields = ["login", "password", "account", "port", "protocol"]

    /// Consumes spaces and comments.
    private mutating func skipSpace() throws(SourceError) {
        cursor.skip(\.isWhitespace)
        while cursor.next == UInt8(ascii: "#") {
            let before = cursor.bytes[..<cursor.position].reversed().prefix { !$0.isNewline }
            guard before.allSatisfy(\.isSpaceOrTab) else {
                throw cursor.unsupported("a comment is not on its own line")
            }
            cursor.skip { !$0.isNewline }
            cursor.skip(\.isWhitespace)
        }
    }

    private mutating func keyword() throws(SourceError) -> String {
        String(utf8: cursor.taking { !$0.isWhitespace })
    }

    private mutating func skipMacro() throws(SourceError) {
        _ = try value()
        var isEmpty = false
        while !cursor.isAtEnd, !isEmpty {
            cursor.skip { !$0.isNewline }
            _ = cursor.take("\r\n") || cursor.take("\n") || cursor.take("\r")
            isEmpty = cursor.next?.isNewline == true
        }
    }

    private mutating func value() throws(SourceError) -> String {
        cursor.skip(\.isWhitespace)
        if cursor.take("\"") { return try quoted() }
        let text = cursor.taking { !$0.isWhitespace }
        guard !text.isEmpty else { throw cursor.malformed("a value is missing") }
        guard !text.contains(UInt8(ascii: "\\")) else { throw cursor.unsupported("a value has a backslash") }
        return String(utf8: text)
    }

    private mutating func quoted() throws(SourceError) -> String {
        var text: [UInt8] = []
        while true {
            text += cursor.taking { !$0.isNewline && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
            if cursor.take("\\\"") {
                text.append(UInt8(ascii: "\""))
            } else if cursor.take("\\\\") {
                text.append(UInt8(ascii: "\\"))
            } else {
                break
            }
        }
        guard cursor.take("\"") else {
            throw cursor.unsupported("a quoted value is not closed, or contains an unsupported escape")
        }
        guard cursor.next?.isWhitespace ?? true else {
            throw cursor.unsupported("there is text after a quoted value")
        }
        return String(utf8: text)
    }
}
