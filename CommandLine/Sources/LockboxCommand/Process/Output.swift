import Lockbox
@_spi(Extensions) import LockboxCore

/// Unbuffered standard output and standard error. Write errors, such as a full disk, are reported.
enum Output {
    /// Prints a line of requested output, which shows what it escapes: see ``Swift/String/onOneLine``.
    static func line(_ text: String) throws { try bytes(Data("\(text.onOneLine)\n".utf8)) }

    /// Prints exactly these bytes: a value, or what is for a program.
    static func bytes(_ data: Data) throws {
        if !writeAll(data, to: STDOUT_FILENO) { throw Failure.system("Writing to standard output failed") }
    }

    /// Prints a value, and on a terminal a newline.
    ///
    /// - Throws: A ``Failure`` if it is no text for a terminal, which would obey its control characters.
    static func value(_ data: Data) throws {
        guard Terminal.isThere(STDOUT_FILENO) else { return try bytes(data) }
        let isText = String(validating: data, as: UTF8.self)?.allSatisfy { character in
            ["\n", "\r\n", "\t"].contains(character)
                || character.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        }
        guard isText ?? false else {
            throw Failure(
                .usage,
                "The value is not text for a terminal, which would obey its control characters. Write it to a file or a pipe."
            )
        }
        try bytes(data + Data("\n".utf8))
    }

    /// Prints a value as JSON in a stable form: sorted keys, dates in ISO 8601 and UTC. A terminal shows all of it: what a line would
    /// escape is `\uXXXX`.
    static func json<Value: Encodable>(_ value: Value, isPretty: Bool = true) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        if isPretty { encoder.outputFormatting.insert(.prettyPrinted) }
        encoder.dateEncodingStrategy = .iso8601
        let text = try escaped(encoder.encode(value))
        try bytes(Data("\(text)\n".utf8))
    }

    /// Only strings have more than ASCII, of which the encoder escapes all but DEL.
    private static func escaped(_ json: Data) -> String {
        String(decoding: json, as: UTF8.self).unicodeScalars.reduce(into: "") { text, scalar in
            let character = String(scalar)
            if scalar.value < 0x7F || character.onOneLine == character {
                text.unicodeScalars.append(scalar)
            } else {
                for unit in character.utf16 {
                    text += "\\u\(String(0x1_0000 + Int(unit), radix: 16).dropFirst())"
                }
            }
        }
    }

    /// Prints a line on standard error, which escapes as ``line(_:)`` does. Errors are ignored.
    static func note(_ text: String) { status("\(text.onOneLine)\n") }

    /// Prints text on the current line of standard error.
    static func status(_ text: String) { writeAll(Data(text.utf8), to: STDERR_FILENO) }

    /// Makes a file that only this user can read, in the place of the one that is there.
    static func replaceFile(_ path: String, with data: Data) throws {
        var template = Array("\(path).XXXXXX".utf8CString)
        let file = mkstemp(&template)
        guard file >= 0 else { throw Failure.system("\(path.onOneLine) cannot be written") }
        defer { close(file) }
        if writeAll(data, to: file), fsync(file) == 0, rename(template, path) == 0 { return }
        let code = errno
        unlink(template)
        throw Failure.system("\(path.onOneLine) cannot be written", code)
    }

    @discardableResult
    static func writeAll(_ data: Data, to descriptor: CInt) -> Bool {
        data.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count < 0, canRepeat(descriptor, waitingFor: CInt(POLLOUT)) { continue }
                if count < 0 { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }
}

extension String {
    /// The text on one line: see ``ShownText``. All lines that this command prints are.
    var onOneLine: String { ShownText.line(self) }
}

extension Output {
    /// Prints names and values, one pair per line.
    static func fields(_ fields: [(name: String, value: String)]) throws {
        let width = fields.map(\.name.count).max() ?? 0
        for (name, value) in fields {
            try line("\(name.padded(to: width))  \(value)")
        }
    }
}

/// Text in columns. On a terminal, it is cut to the terminal's width.
struct Table {
    let header: [String]
    var rows: [[String]] = []

    func print() throws {
        let cells = ([header] + rows).map { $0.map(\.onOneLine) }
        var widths = header.indices.map { column in cells.map { $0[column].columns }.max() ?? 0 }
        if let terminal = Terminal.width(of: STDOUT_FILENO) { fit(&widths, into: terminal) }
        for (number, row) in cells.enumerated() {
            let line = zip(row, widths).map { $0.padded(to: $1) }.joined(separator: "  ")
                .replacing(/[ ]+$/, with: "")
            let isBold = number == 0 && Terminal.isColored(STDOUT_FILENO)
            if isBold {
                try Output.bytes(Data("\u{1B}[1m\(line)\u{1B}[0m\n".utf8))
            } else {
                try Output.line(line)
            }
        }
    }

    /// Shortens the widest column until the table fits. A column keeps at least two characters and an ellipsis.
    private func fit(_ widths: inout [Int], into terminal: Int) {
        func excess() -> Int { widths.reduce(0, +) + 2 * (widths.count - 1) - terminal }
        while excess() > 0, let widest = widths.indices.max(by: { widths[$0] < widths[$1] }),
            widths[widest] > 3
        {
            let next = widths.filter { $0 < widths[widest] }.max() ?? 3
            widths[widest] -= min(excess(), max(1, widths[widest] - max(next, 3)))
        }
    }
}

extension String {
    /// The number of terminal columns that the text occupies.
    fileprivate var columns: Int { reduce(0) { $0 + $1.columns } }

    fileprivate func padded(to width: Int) -> String {
        let own = columns
        if own <= width { return self + String(repeating: " ", count: width - own) }
        var room = width - 1
        let cut = prefix {
            room -= $0.columns
            return room >= 0
        }
        return "\(cut)…".padded(to: width)
    }
}

extension Character {
    /// Two for East Asian wide characters and emoji, otherwise one.
    fileprivate var columns: Int {
        guard let scalar = unicodeScalars.first else { return 0 }
        if scalar.properties.isEmojiPresentation || unicodeScalars.contains("\u{FE0F}") { return 2 }
        let isWide =
            switch scalar.value {
            case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF: true
            case 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD: true
            default: false
            }
        return isWide ? 2 : 1
    }
}

/// Reports progress on standard error, if that is a terminal.
struct ProgressReport {
    private let work: String
    private let isBar: Bool
    private var shown: Int?

    init(_ work: String, quiet: Bool) {
        self.work = work
        isBar = !quiet && Terminal.isCapable(STDERR_FILENO)
    }

    mutating func show(_ progress: StoreProgress) {
        guard isBar, progress.total > 0 else { return }
        let count = "\(progress.completed) of \(progress.total)"
        let width = barWidth(beside: count)
        let step = width == 0 ? progress.completed : width * progress.completed / progress.total
        guard step != shown else { return }
        shown = step
        if width == 0 { return Output.status("\r\(work) \(count)") }
        let bar = String(repeating: "#", count: step) + String(repeating: ".", count: width - step)
        Output.status("\r\(work) [\(bar)] \(count)")
    }

    /// Zero on a terminal that is too narrow for a bar.
    private func barWidth(beside count: String) -> Int {
        let room = (Terminal.width(of: STDERR_FILENO) ?? 80) - work.count - count.count - 5
        return room < 5 ? 0 : min(room, 30)
    }

    /// Clears the bar.
    mutating func end() {
        if shown != nil { Output.status("\r\u{1B}[K") }
        shown = nil
    }
}

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
