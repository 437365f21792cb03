import LockboxCore
import LockboxPlatform

/// Reads the bytes of a text in order. At the end, `next` is nil.
struct ByteCursor {
    let bytes: [UInt8]
    private(set) var position = 0
    /// The last line number computed, and its position, so that every line is counted only once.
    private var known = (line: 1, position: 0)

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var next: UInt8? { position < bytes.count ? bytes[position] : nil }
    var isAtEnd: Bool { position == bytes.count }

    mutating func advance() { position = min(position + 1, bytes.count) }

    mutating func skip(_ isSkipped: (UInt8) -> Bool) {
        while let byte = next, isSkipped(byte) { advance() }
    }

    /// Consumes the bytes for which the condition holds.
    mutating func taking(_ isIncluded: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let start = position
        skip(isIncluded)
        return bytes[start..<position]
    }

    func sees(_ text: StaticString) -> Bool {
        guard bytes.count - position >= text.utf8CodeUnitCount else { return false }
        return bytes.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return true }
            return memcmp(start + position, text.utf8Start, text.utf8CodeUnitCount) == 0
        }
    }

    /// Consumes the text if it is next.
    mutating func take(_ text: StaticString) -> Bool {
        guard sees(text) else { return false }
        position += text.utf8CodeUnitCount
        return true
    }

    mutating func expect(_ text: StaticString) throws(SourceError) {
        guard take(text) else { throw malformed("\(text) is missing") }
    }

    /// Consumes everything up to and including the next occurrence of the text.
    mutating func skip(past text: StaticString) throws(SourceError) {
        while !take(text) {
            guard !isAtEnd else { throw malformed("\(text) is missing") }
            advance()
        }
    }

    mutating func malformed(_ reason: String) -> SourceError { .malformed("\(reason), in line \(line())") }
    mutating func unsupported(_ reason: String) -> SourceError {
        .unsupported("\(reason), in line \(line())")
    }

    /// The number of the line that the next byte is in.
    mutating func line() -> Int {
        known.line += bytes[known.position..<position].count { $0 == UInt8(ascii: "\n") }
        known.position = position
        return known.line
    }
}

extension UInt8 {
    var isSpaceOrTab: Bool { self == UInt8(ascii: " ") || self == UInt8(ascii: "\t") }
    var isNewline: Bool { self == UInt8(ascii: "\n") || self == UInt8(ascii: "\r") }
    var isWhitespace: Bool { isSpaceOrTab || isNewline }
    var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
    var isLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20) }
}

extension String {
    /// The bytes must be valid UTF-8.
    init(utf8 bytes: some Sequence<UInt8> & Collection) { self.init(decoding: bytes, as: UTF8.self) }
}
