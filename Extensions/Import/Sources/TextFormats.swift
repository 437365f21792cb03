import Lockbox
public import LockboxPlatform

/// A program that reads `.env` files: they do not agree on comments, quotes, `$` and backslashes.
public enum EnvironmentDialect: String, Sendable, Hashable, CaseIterable {
    /// Only what dotenv for Node.js and Docker Compose read alike. Anything else is refused.
    case common
    /// `docker run --env-file`: a value is everything after `=`, to the end of the line. Only a line that begins with `#` is a
    /// comment.
    case docker
    /// dotenv for Node.js: `#` begins a comment outside quotes, `$` and backslashes are text, and quotes are `'`, `"` or a
    /// backtick. In double quotes, `\n` and `\r` stand for line ends.
    case dotenv
    /// Assignments of a POSIX shell. Anything that it would expand or run is refused.
    case shell
}

extension EnvironmentDialect {
    /// Returns the variables of a text, in its order.
    ///
    /// - Parameters:
    ///   - text: The bytes of an `.env` file.
    ///   - name: The file's, for errors.
    /// - Throws: ``LockboxError/sourceRefused(path:reason:)``.
    @_spi(Extensions)
    public func variables(of text: Data, named name: String) throws -> [(name: String, value: String)] {
        do {
            return try EnvironmentText.entries(Array(text), self).compactMap { entry in
                guard case .string(let value) = try entry.value.get() else { return nil }
                return (entry.name, value)
            }
        } catch let error as SourceError {
            throw LockboxError.sourceRefused(path: name, reason: error.description)
        }
    }
}

/// Reads `.env` files. A file that cannot be read is refused, with the numbers of all such lines. In the common dialect:
///
/// * The file is UTF-8, with lines that end in LF or CRLF. Empty lines and lines that begin with `#` are
///   skipped.
/// * A line is `NAME=value` or `export NAME=value`, with optional spaces or tabs around it. A name begins with
///   a letter or `_` and contains letters, digits, `_`, `.` and `-`. It must not occur twice.
/// * An unquoted value ends at the end of the line, or at a space followed by `#`. It contains no `$` and no
///   other `#`, and does not begin with a quote or a backtick. A backslash has no special meaning.
/// * A value in `'single quotes'` is literal and may span several lines that end in LF. No backslash may
///   precede a single quote.
/// * A value in `"double quotes"` is the same, except that `\n` and `\r` stand for line ends. It contains no
///   other backslash and no `$`.
/// * A closing quote may be followed only by spaces and a comment.
struct EnvironmentText {
    private var cursor: ByteCursor
    private let dialect: EnvironmentDialect
    private var names: [String: Int] = [:]
    private var refused: [(reason: String, lines: [Int])] = []
    /// Where the comment after the value begins that was read last, in dotenv's dialect.
    private var comment: Int?

    static func entries(_ bytes: [UInt8], _ dialect: EnvironmentDialect) throws(SourceError)
        -> [SourceFile.Entry]
    {
        var text = EnvironmentText(cursor: ByteCursor(bytes), dialect: dialect)
        // To a shell it is part of the first word.
        if dialect != .shell { _ = text.cursor.take("\u{FEFF}") }
        guard
            dialect != .common && dialect != .dotenv
                || !String(utf8: bytes).unicodeScalars.contains(where: {
                    $0 == "\u{2028}" || $0 == "\u{2029}"
                })
        else {
            throw .unsupported("it has line separators")
        }
        var entries: [SourceFile.Entry] = []
        while !text.cursor.isAtEnd {
            let start = text.cursor
            text.comment = nil
            do {
                guard let (name, value) = try text.line() else { continue }
                // A comment after a value stays, because the user may have meant it to be part of that.
                let range = start.position..<(text.comment ?? text.cursor.position)
                entries.append(SourceFile.Entry(name: name, value: .success(value), range: range))
            } catch {
                // After a quote that is not closed, the lines below it are looked at, too.
                if text.cursor.isAtEnd { text.cursor = start }
                text.refuse(error.description)
                text.cursor.skip { !$0.isNewline }
                _ = text.cursor.take("\r\n") || text.cursor.take("\n") || text.cursor.take("\r")
            }
        }
        guard text.refused.isEmpty else {
            let reasons = text.refused.map {
                "\($0.reason), in line\($0.lines.count == 1 ? "" : "s") \($0.lines.list)"
            }
            let advice =
                dialect == .common
                ? "; in single quotes a value is read as it is, and the docker dialect keeps everything after ="
                : ""
            throw .unsupported(reasons.joined(separator: "; ") + advice)
        }
        return entries
    }

    /// Records the current line, so that all lines to correct are named at once.
    private mutating func refuse(_ reason: String) {
        let line = cursor.line()
        guard let index = refused.firstIndex(where: { $0.reason == reason }) else {
            return refused.append((reason, [line]))
        }
        if refused[index].lines.last != line { refused[index].lines.append(line) }
    }

    /// Returns nil for an empty line or a comment.
    private mutating func line() throws(SourceError) -> (name: String, value: PropertyValue)? {
        cursor.skip(\.isSpaceOrTab)
        if isAtLineEnd {
            try endLine()
            return nil
        }
        let line = cursor.line()
        let name = dialect == .docker ? try dockerName() : try name()
        if let first = names.updateValue(line, forKey: name) {
            refuse("\(name) occurs for the second time, after line \(first)")
        }
        switch dialect {
        case .common, .dotenv:
            let value = try value()
            if dialect == .dotenv, cursor.next == UInt8(ascii: "#") { comment = cursor.position }
            try endLine()
            return (name, value)
        case .docker:
            let value = String(utf8: cursor.taking { !$0.isNewline })
            try endLine()
            return (name, .string(value))
        case .shell:
            let value = try shellWord()
            cursor.skip(\.isSpaceOrTab)
            if cursor.next == UInt8(ascii: "\r") { refuse("a shell keeps the carriage return at the end") }
            try endLine()
            return (name, .string(value))
        }
    }

    private mutating func dockerName() throws(SourceError) -> String {
        let name = cursor.taking { !$0.isNewline && $0 != UInt8(ascii: "=") }
        guard cursor.take("=") else {
            throw .malformed("a name has no value; docker takes it from the environment")
        }
        let isPlain = String(utf8: name).unicodeScalars.allSatisfy {
            !$0.properties.isWhitespace && $0.value > 0x20
        }
        guard !name.isEmpty, isPlain else {
            throw .malformed("a name is empty, or has spaces")
        }
        return String(utf8: name)
    }

    private mutating func shellWord() throws(SourceError) -> String {
        var text: [UInt8] = []
        var isQuoted = false
        while let byte = cursor.next, isQuoted || !byte.isNewline && !byte.isSpaceOrTab {
            cursor.advance()
            switch byte {
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: "'") where !isQuoted:
                text += cursor.taking { $0 != UInt8(ascii: "'") }
                guard cursor.take("'") else { throw .malformed("a quoted value is not closed") }
            case UInt8(ascii: "\\"):
                guard let next = cursor.next else { throw .malformed("a backslash ends the file") }
                if isQuoted, !"$`\"\\\n".utf8.contains(next) { text.append(byte) }
                cursor.advance()
                if next != UInt8(ascii: "\n") { text.append(next) }
            case UInt8(ascii: "$"), UInt8(ascii: "`"): refuse(Self.expansion)
            case UInt8(ascii: "~") where !isQuoted && (text.isEmpty || text.last == UInt8(ascii: ":")):
                refuse("a shell expands ~")
            case _ where !isQuoted && ";&|<>(){".utf8.contains(byte):
                refuse("a value contains ; & | < > ( ) or { outside quotes")
            default: text.append(byte)
            }
        }
        if isQuoted { throw .malformed("a quoted value is not closed") }
        return String(utf8: text)
    }

    private var isAtLineEnd: Bool {
        cursor.isAtEnd || cursor.next?.isNewline == true || cursor.next == UInt8(ascii: "#")
    }

    /// Consumes a comment and the end of the line.
    private mutating func endLine() throws(SourceError) {
        if cursor.next == UInt8(ascii: "#") { cursor.skip { !$0.isNewline } }
        guard cursor.isAtEnd || cursor.take("\n") || cursor.take("\r\n") else {
            throw .malformed("there is text after a value, or a lone carriage return")
        }
    }

    private mutating func name() throws(SourceError) -> String {
        if cursor.sees("export ") || cursor.sees("export\t") {
            _ = cursor.take("export")
            cursor.skip(\.isSpaceOrTab)
        }
        let name = cursor.taking { byte in
            byte.isLetter || byte.isDigit || "_.-".utf8.contains(byte)
        }
        guard let first = name.first, first.isLetter || first == UInt8(ascii: "_") else {
            throw .malformed("a name does not begin with a letter")
        }
        if dialect == .shell {
            guard cursor.take("="), !name.contains(where: { "-.".utf8.contains($0) }) else {
                throw .malformed("a shell takes no such name, or no spaces around =")
            }
            return String(utf8: name)
        }
        cursor.skip(\.isSpaceOrTab)
        guard cursor.take("=") else { throw .malformed("a name is not followed by =") }
        cursor.skip(\.isSpaceOrTab)
        return String(utf8: name)
    }

    private mutating func value() throws(SourceError) -> PropertyValue {
        let value: String
        if cursor.take("'") {
            value = try quoted(UInt8(ascii: "'"))
        } else if cursor.take("\"") {
            value = try quoted(UInt8(ascii: "\""))
        } else if dialect == .dotenv, cursor.take("`") {
            value = try quoted(UInt8(ascii: "`"))
        } else {
            return .string(try unquoted())
        }
        cursor.skip(\.isSpaceOrTab)
        return .string(value)
    }

    private mutating func unquoted() throws(SourceError) -> String {
        if dialect == .common {
            if cursor.next == UInt8(ascii: "#") { throw .malformed("a value begins with #") }
            if cursor.next == UInt8(ascii: "`") { throw .malformed("a value begins with a backtick") }
        }
        let line = cursor.taking { !$0.isNewline && $0 != UInt8(ascii: "#") }
        if dialect == .common, cursor.next == UInt8(ascii: "#"), line.last != UInt8(ascii: " ") {
            throw .malformed("an unquoted value contains #")
        }
        let text = String(utf8: line.prefix(line.count - line.reversed().prefix { $0.isSpaceOrTab }.count))
        let isControl = text.utf8.contains { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }
        let ends = [text.unicodeScalars.first, text.unicodeScalars.last].compactMap { $0 }
        // The parsers differ in which non-ASCII spaces they trim.
        let hasSpace = ends.contains { $0.properties.isWhitespace || $0 == "\u{FEFF}" }
        if isControl || hasSpace { refuse("an unquoted value contains unusual spaces") }
        if dialect == .common, text.utf8.contains(UInt8(ascii: "$")) { refuse(Self.expansion) }
        return text
    }

    private static let expansion = "a value contains $, which may be expanded as a variable"

    private mutating func quoted(_ quote: UInt8) throws(SourceError) -> String {
        let isDouble = quote == UInt8(ascii: "\"")
        var text: [UInt8] = []
        while let byte = cursor.next, byte != quote {
            cursor.advance()
            switch byte {
            case UInt8(ascii: "\r"): refuse("a quoted value contains a carriage return")
            case UInt8(ascii: "$") where isDouble && dialect == .common: refuse(Self.expansion)
            case UInt8(ascii: "\\") where isDouble && cursor.next != quote:
                guard cursor.next == UInt8(ascii: "n") || cursor.next == UInt8(ascii: "r") else {
                    if dialect == .common { refuse("a quoted value contains a backslash") }
                    text.append(byte)
                    continue
                }
                text.append(cursor.take("n") ? 0x0A : 0x0D)
                _ = cursor.take("r")
            case UInt8(ascii: "\\") where cursor.next == quote:
                refuse("a quoted value contains a backslash before a quote")
            default: text.append(byte)
            }
        }
        guard cursor.next == quote else { throw .malformed("a quoted value is not closed") }
        cursor.advance()
        return String(utf8: text)
    }
}

extension [Int] {
    fileprivate var list: String { map(String.init).joined(separator: ", ") }
}

/// Reads netrc files: `machine` or `default`, each followed by `login` or `user`, `password`, `account`, `port` and
/// `protocol`, in lower case.
///
/// An entry is named `login@machine`, or `machine` if it has no login; for `default`, likewise. Its protocol and its port follow,
/// each after a colon, because one machine may have several. Its value is a dictionary of its fields, with `user` as `login`.
/// `macdef` and the lines up to the next empty one are skipped, and are kept when the machine before them is removed. Lines that begin with `#` are skipped too. A value may be in double quotes,
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
        let service = ["protocol", "port"].compactMap { fields[$0].map { ":\($0)" } }.joined()
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
        let quotes = "; put it in double quotes"
        if cursor.next == UInt8(ascii: "#") {
            throw cursor.unsupported("a value begins with #, a comment to curl\(quotes)")
        }
        let text = cursor.taking { !$0.isWhitespace }
        guard !text.isEmpty else { throw cursor.malformed("a value is missing") }
        guard !text.contains(where: { $0 == 0x0B || $0 == 0x0C }) else {
            throw cursor.unsupported("a value has a vertical tab or a form feed, a space to curl\(quotes)")
        }
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
