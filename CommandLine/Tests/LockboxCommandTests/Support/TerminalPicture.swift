/// What a terminal shows, as an SVG picture.
struct TerminalPicture {
    let columns: Int
    private var lines: [String] = []

    init(columns: Int) { self.columns = columns }

    /// Adds what a program wrote, with the escape sequences for bold, red and green that ours use.
    mutating func add(_ screen: String) {
        var text = screen.replacing("\r\n", with: "\n")
        if text.hasSuffix("\n") { text.removeLast() }
        lines += text.split(separator: "\n", omittingEmptySubsequences: false).map(Self.remains)
    }

    /// What remains of a line on which a bar was shown and cleared.
    private static func remains(of line: Substring) -> String {
        line.ranges(of: "\r\u{1B}[K").last.map { String(line[$0.upperBound...]) } ?? String(line)
    }

    var svg: String {
        let (column, row, margin) = (8.0, 19, 16)
        let width = Int(Double(columns) * column) + 2 * margin
        let height = lines.count * row + 2 * margin
        var svg = """
            <svg xmlns="http://www.w3.org/2000/svg" width="\(width)" height="\(height)" viewBox="0 0 \(width) \(height)">
            <style>
            text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d0d7de; white-space: pre }
            .bold { fill: #ffffff; font-weight: bold }
            .green { fill: #7ee787 }
            .red { fill: #ff7b72 }
            </style>
            <rect width="100%" height="100%" rx="8" fill="#161b22"/>

            """
        for (number, line) in lines.enumerated() {
            var place = 0
            for run in Self.runs(line) {
                let x = Double(margin) + Double(place) * column
                place += run.text.count
                // The length is given, so that columns stand in columns in every font.
                svg +=
                    "<text x=\"\(x)\" y=\"\(margin + 14 + number * row)\" "
                    + "textLength=\"\(Double(run.text.count) * column)\" class=\"\(run.style)\" xml:space=\"preserve\">"
                    + "\(Self.escaped(run.text))</text>\n"
            }
        }
        return svg + "</svg>\n"
    }

    /// The parts of a line that look the same.
    private static func runs(_ line: String) -> [(text: String, style: String)] {
        var runs: [(text: String, style: String)] = []
        var style = "plain"
        for part in line.split(separator: "\u{1B}[", omittingEmptySubsequences: false) {
            var text = part
            if let escape = part.prefixMatch(of: /([0-9;]*)m/), part.startIndex != line.startIndex {
                style = ["1": "bold", "31": "red", "32": "green"][String(escape.1)] ?? "plain"
                text = part[escape.range.upperBound...]
            }
            if !text.isEmpty { runs.append((String(text), style)) }
        }
        return runs
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
    }
}
