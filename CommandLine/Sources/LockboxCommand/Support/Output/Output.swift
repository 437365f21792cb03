/// Unbuffered standard output and standard error. Write errors, such as a full disk, are reported.
enum Output {
    /// Prints a line of requested output.
    static func line(_ text: String) throws { try bytes(Data("\(text)\n".utf8)) }

    /// Prints exactly these bytes.
    static func bytes(_ data: Data) throws {
        guard writeAll(data, to: STDOUT_FILENO) else {
            throw Failure(
                .inputOutput,
                "Writing to standard output failed: \(String(cString: strerror(errno)))."
            )
        }
    }

    /// Prints a value as JSON in a stable form: sorted keys, dates in ISO 8601 and UTC.
    static func json<Value: Encodable>(_ value: Value) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .iso8601
        try bytes(encoder.encode(value) + Data("\n".utf8))
    }

    /// Prints a message on standard error. Errors are ignored.
    static func note(_ text: String) { writeAll(Data("\(text)\n".utf8), to: STDERR_FILENO) }

    /// Prints text on the current line of standard error.
    static func status(_ text: String) { writeAll(Data(text.utf8), to: STDERR_FILENO) }

    @discardableResult
    static func writeAll(_ data: Data, to descriptor: CInt) -> Bool {
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
    /// The text on one line: characters that end the line or move a terminal's cursor are escaped.
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
    /// Prints names and values, one pair per line.
    static func fields(_ fields: [(name: String, value: String)]) throws {
        let width = fields.map(\.name.count).max() ?? 0
        for (name, value) in fields {
            try line("\(name)\(String(repeating: " ", count: width - name.count))  \(value.onOneLine)")
        }
    }
}
