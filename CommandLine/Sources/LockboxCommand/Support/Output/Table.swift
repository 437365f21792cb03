/// Text in columns. On a terminal, it is cut to the terminal's width.
struct Table {
    let header: [String]
    var rows: [[String]] = []

    func print() throws {
        let cells = ([header] + rows).map { $0.map(\.onOneLine) }
        var widths = header.indices.map { column in cells.map { $0[column].columns }.max() ?? 0 }
        if let terminal = Terminal.width(of: STDOUT_FILENO) { fit(&widths, into: terminal) }
        for (number, row) in cells.enumerated() {
            let line = zip(row, widths).map { $0.padded(to: $1) }.joined(separator: "  ").trimmingSpaces
            let isBold = number == 0 && Terminal.isColored(STDOUT_FILENO)
            try Output.line(isBold ? "\u{1B}[1m\(line)\u{1B}[0m" : line)
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
        var cut = ""
        var room = width - 1
        for character in self {
            room -= character.columns
            if room < 0 { break }
            cut.append(character)
        }
        return (cut + "…").padded(to: width)
    }

    fileprivate var trimmingSpaces: String {
        var text = self
        while text.hasSuffix(" ") { text.removeLast() }
        return text
    }
}

extension Character {
    /// Two for East Asian wide characters and emoji, otherwise one.
    fileprivate var columns: Int {
        guard let scalar = unicodeScalars.first else { return 0 }
        if scalar.properties.isEmojiPresentation || unicodeScalars.contains("\u{FE0F}") { return 2 }
        return switch scalar.value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF,
            0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD:
            2
        default: 1
        }
    }
}
