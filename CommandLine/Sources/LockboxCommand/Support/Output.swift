/// Standard output and standard error, written at once and checked: a full disk is an error here.
enum Output {
    /// Text that was asked for.
    static func line(_ text: String) throws { try bytes(Data("\(text)\n".utf8)) }

    /// Exactly these bytes.
    static func bytes(_ data: Data) throws {
        guard writeAll(data, to: STDOUT_FILENO) else {
            throw Failure(
                .inputOutput,
                "Writing to standard output failed: \(String(cString: strerror(errno)))."
            )
        }
    }

    /// A value as JSON, in a form that does not change: sorted keys, dates as in ISO 8601, UTC.
    static func json<Value: Encodable>(_ value: Value) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        try bytes(encoder.encode(value) + Data("\n".utf8))
    }

    /// A line for people on standard error. Nothing can be done if it cannot be written.
    static func note(_ text: String) { writeAll(Data("\(text)\n".utf8), to: STDERR_FILENO) }

    /// Something on the present line of standard error.
    static func status(_ text: String) { writeAll(Data(text.utf8), to: STDERR_FILENO) }

    @discardableResult
    private static func writeAll(_ data: Data, to descriptor: CInt) -> Bool {
        data.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if count < 0, errno == EINTR { continue }
                if count < 0 { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }
}

extension String {
    /// The text on one line: with escapes in place of what would move a terminal's cursor, or end the line.
    var onOneLine: String {
        var line = ""
        for scalar in unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator, .format: line += scalar.escaped(asASCII: true)
            default: line.unicodeScalars.append(scalar)
            }
        }
        return line
    }
}

extension Output {
    /// Names and values, one on each line.
    static func fields(_ fields: [(name: String, value: String)]) throws {
        let width = fields.map(\.name.count).max() ?? 0
        for (name, value) in fields {
            try line("\(name)\(String(repeating: " ", count: width - name.count))  \(value.onOneLine)")
        }
    }
}
