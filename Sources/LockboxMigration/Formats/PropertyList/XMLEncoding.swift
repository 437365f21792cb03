import LockboxCore

/// The encoding of an XML property list.
enum XMLEncoding {
    case utf8
    case utf16(isBigEndian: Bool)

    /// Detects UTF-16 by its byte order mark, or else by the zero byte beside the first `<`, as XML requires.
    init(of bytes: [UInt8]) {
        switch (bytes.first, bytes.dropFirst().first) {
        case (0xFE, 0xFF), (0, UInt8(ascii: "<")): self = .utf16(isBigEndian: true)
        case (0xFF, 0xFE), (UInt8(ascii: "<"), 0): self = .utf16(isBigEndian: false)
        default: self = .utf8
        }
    }

    /// Returns the text in UTF-8. ``bytes(of:)`` returns the same bytes again.
    func utf8(of bytes: [UInt8]) throws(SourceError) -> [UInt8] {
        let text: [UInt8]
        switch self {
        case .utf8:
            guard String(validating: bytes, as: UTF8.self) != nil else { throw .notUTF8 }
            text = bytes
        case .utf16(let isBigEndian):
            guard bytes.count.isMultiple(of: 2) else { throw .malformed("its UTF-16 is cut short") }
            let units = stride(from: 0, to: bytes.count, by: 2).map { index in
                let (first, second) = (UInt16(bytes[index]), UInt16(bytes[index + 1]))
                return isBigEndian ? first << 8 | second : second << 8 | first
            }
            guard let string = String(validating: units, as: UTF16.self) else {
                throw .malformed("its UTF-16 has an unpaired surrogate")
            }
            text = Array(string.utf8)
        }
        guard !text.contains(0) else { throw .malformed("it contains a zero byte") }
        return text
    }

    /// Returns the bytes of a text in UTF-8.
    func bytes(of text: [UInt8]) -> [UInt8] {
        guard case .utf16(let isBigEndian) = self else { return text }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(2 * text.count)
        for unit in String(utf8: text).utf16 {
            let (high, low) = (UInt8(unit >> 8), UInt8(truncatingIfNeeded: unit))
            bytes.append(isBigEndian ? high : low)
            bytes.append(isBigEndian ? low : high)
        }
        return bytes
    }

    /// Whether an XML declaration names this encoding, or none.
    func matches(declaration: String) -> Bool {
        let declaration = declaration.lowercased()
        guard declaration.contains("encoding") else { return true }
        switch self {
        case .utf8: return declaration.contains("utf-8")
        case .utf16(let isBigEndian):
            return declaration.contains("utf-16")
                && !declaration.contains(isBigEndian ? "utf-16le" : "utf-16be")
        }
    }
}
