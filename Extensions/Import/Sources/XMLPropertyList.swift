import LockboxPlatform

/// Reads property lists in XML, with the position of each entry of the top-level dictionary. Accepts what
/// Foundation writes, comments and CDATA, hexadecimal integers, and UTF-16, but nothing that XML readers disagree
/// about.
///
/// Foundation's own reader overflows the stack on deep nesting, and reports no positions.
struct XMLPropertyList {
    private var cursor: ByteCursor
    private var depth = 0
    /// Why the current entry has no value although its XML is valid.
    private var firstError: SourceError?

    /// - Parameters:
    ///   - bytes: The text in UTF-8, whatever the encoding of the file is.
    ///   - encoding: The encoding of the file, which its XML declaration must not contradict.
    static func entries(
        _ bytes: [UInt8],
        _ encoding: XMLEncoding = .utf8
    ) throws(SourceError) -> [SourceFile.Entry] {
        var list = XMLPropertyList(cursor: ByteCursor(bytes))
        try list.prologue(encoding)
        guard list.cursor.sees("<dict") else {
            throw .unsupported("its top-level object is not a dictionary")
        }
        var entries: [SourceFile.Entry] = []
        try list.members { (list, start, name) throws(SourceError) in
            list.firstError = nil
            let value = try list.value()
            entries.append(
                SourceFile.Entry(
                    name: name,
                    value: list.firstError.map(Result.failure) ?? .success(value),
                    range: start..<list.cursor.position
                )
            )
        }
        try list.skipSpace()
        try list.close("plist")
        try list.skipSpace()
        guard list.cursor.isAtEnd else { throw list.cursor.malformed("there is text after the end") }
        return entries
    }

    private mutating func prologue(_ encoding: XMLEncoding) throws(SourceError) {
        _ = cursor.take("\u{FEFF}")
        if cursor.take("<?xml") {
            let start = cursor.position
            try cursor.skip(past: "?>")
            guard encoding.matches(declaration: String(utf8: cursor.bytes[start..<cursor.position])) else {
                throw .unsupported("it is not in the encoding that its XML declaration names")
            }
        }
        try skipSpace()
        if cursor.take("<!DOCTYPE plist") {
            let rest = cursor.taking { $0 != UInt8(ascii: ">") }
            guard !rest.contains(UInt8(ascii: "[")) else { throw cursor.unsupported("it defines entities") }
            try cursor.expect(">")
        }
        try skipSpace()
        try cursor.expect("<plist")
        _ = cursor.taking { $0 != UInt8(ascii: ">") && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "<") }
        try cursor.expect(">")
        try skipSpace()
    }

    /// Consumes spaces and comments. Returns the position after the last comment.
    @discardableResult private mutating func skipSpace() throws(SourceError) -> Int {
        var start = cursor.position
        cursor.skip(\.isWhitespace)
        while cursor.take("<!--") {
            try cursor.skip(past: "-->")
            start = cursor.position
            cursor.skip(\.isWhitespace)
        }
        return start
    }

    private mutating func close(_ name: StaticString) throws(SourceError) {
        guard cursor.take("</"), cursor.take(name) else { throw cursor.malformed("</\(name)> is missing") }
        cursor.skip(\.isWhitespace)
        try cursor.expect(">")
    }

    private enum Tag { case open, empty }

    /// Consumes the tag if it is next.
    private mutating func take(_ name: StaticString) -> Tag? {
        let before = cursor
        if cursor.take("<"), cursor.take(name) {
            cursor.skip(\.isWhitespace)
            if cursor.take("/>") { return .empty }
            if cursor.take(">") { return .open }
        }
        cursor = before
        return nil
    }

    // MARK: Elements

    private mutating func value() throws(SourceError) -> PropertyValue {
        if cursor.sees("<dict") { return try dictionary() }
        if cursor.sees("<array") { return try array() }
        if let text = try text("string") { return .string(text) }
        if let text = try text("integer") { return checked(NumberText.propertyListInteger(text)) }
        if let text = try text("real") { return checked(Self.real(text)) }
        if let text = try text("date") { return checked(Self.date(text).map(PropertyValue.date)) }
        if let text = try text("data") { return checked(Self.data(text).map(PropertyValue.data)) }
        if let text = try text("true"), text.isEmpty { return .boolean(true) }
        if let text = try text("false"), text.isEmpty { return .boolean(false) }
        throw cursor.malformed("a value is missing")
    }

    private mutating func checked(_ value: PropertyValue?) -> PropertyValue {
        if value == nil {
            firstError = cursor.unsupported("a number, a date or data cannot be stored exactly")
        }
        return value ?? .null
    }

    private mutating func array() throws(SourceError) -> PropertyValue {
        var elements: [PropertyValue] = []
        try nested("array") { (list, _) throws(SourceError) in elements.append(try list.value()) }
        return .array(elements)
    }

    private mutating func dictionary() throws(SourceError) -> PropertyValue {
        var (keys, values): ([PropertyValue], [PropertyValue]) = ([], [])
        try members { (list, _, name) throws(SourceError) in
            keys.append(.string(name))
            values.append(try list.value())
        }
        return try .dictionary(keys: keys, values: values)
    }

    private mutating func members(
        _ read: (inout XMLPropertyList, _ start: Int, _ name: String) throws(SourceError) -> Void
    ) throws(SourceError) {
        try nested("dict") { (list, start) throws(SourceError) in
            guard let name = try list.text("key") else { throw list.cursor.malformed("a key is missing") }
            try list.skipSpace()
            try read(&list, start, name)
        }
    }

    /// Reads children until the element ends. Each starts with the space before it.
    private mutating func nested(
        _ name: StaticString,
        _ child: (inout XMLPropertyList, _ start: Int) throws(SourceError) -> Void
    ) throws(SourceError) {
        guard depth < PropertyValue.maximumDepth else { throw .tooDeep }
        guard let tag = take(name) else { throw cursor.malformed("<\(name)> is missing") }
        guard tag == .open else { return }
        depth += 1
        var start = try skipSpace()
        while !cursor.sees("</") {
            try child(&self, start)
            start = try skipSpace()
        }
        try close(name)
        depth -= 1
    }

    // MARK: Texts

    /// Returns the text of such an element, if it is next.
    private mutating func text(_ name: StaticString) throws(SourceError) -> String? {
        guard let tag = take(name) else { return nil }
        guard tag == .open else { return "" }
        let start = cursor.position
        var text: [UInt8] = []
        repeat {
            text += cursor.taking { $0 != UInt8(ascii: "<") && $0 != UInt8(ascii: "&") }
        } while try takeEscaped(&text)
        // An XML reader turns it into a newline, Foundation keeps it.
        if cursor.bytes[start..<cursor.position].contains(UInt8(ascii: "\r")) {
            firstError = cursor.unsupported("a string contains a carriage return")
        }
        try close(name)
        return String(utf8: text)
    }

    /// Consumes a CDATA section or an entity, if one is next.
    private mutating func takeEscaped(_ text: inout [UInt8]) throws(SourceError) -> Bool {
        if cursor.take("<![CDATA[") {
            let start = cursor.position
            try cursor.skip(past: "]]>")
            text += cursor.bytes[start..<(cursor.position - 3)]
            return true
        }
        guard cursor.take("&") else { return false }
        text += Array(String(Character(try entity())).utf8)
        return true
    }

    private mutating func entity() throws(SourceError) -> Unicode.Scalar {
        let name = String(utf8: cursor.taking { $0.isDigit || $0.isLetter || $0 == UInt8(ascii: "#") })
        try cursor.expect(";")
        let scalar: Unicode.Scalar? =
            switch name {
            case "lt": "<"
            case "gt": ">"
            case "amp": "&"
            case "quot": "\""
            case "apos": "'"
            case _ where name.hasPrefix("#x"):
                UInt32(name.dropFirst(2), radix: 16).flatMap(Unicode.Scalar.init)
            case _ where name.hasPrefix("#"): UInt32(name.dropFirst(1)).flatMap(Unicode.Scalar.init)
            default: nil
            }
        guard let scalar, scalar.value > 0 else { throw cursor.malformed("an entity is unknown") }
        return scalar
    }

    private static func real(_ text: String) -> PropertyValue? {
        switch text {
        case "nan": .real(.nan)
        case "+infinity": .real(.infinity)
        case "-infinity": .real(-.infinity)
        default: NumberText.real(text)
        }
    }

    private static func data(_ text: String) -> Data? {
        let digits = text.filter { !$0.isWhitespace }
        guard let data = Data(base64Encoded: digits), data.base64EncodedString() == digits else { return nil }
        return data
    }

    /// Parses the format that Foundation writes: `2001-01-01T00:00:00Z`.
    private static func date(_ text: String) -> Date? {
        let form = Array("dddd-dd-ddTdd:dd:ddZ".utf8)
        let text = Array(text.utf8)
        guard text.count == form.count,
            zip(text, form).allSatisfy({ $1 == UInt8(ascii: "d") ? $0.isDigit : $0 == $1 })
        else { return nil }
        let parts = [0..<4, 5..<7, 8..<10, 11..<13, 14..<16, 17..<19].map { Int(String(utf8: text[$0])) ?? 0 }
        let (year, month, day) = (parts[0], parts[1], parts[2])
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        guard year > 0, (1...12).contains(month), (1...lengths[month - 1]).contains(day), parts[3] < 24,
            parts[4] < 60, parts[5] < 60
        else { return nil }
        let before = year - 1
        let days =
            before * 365 + before / 4 - before / 100 + before / 400
            + lengths[..<(month - 1)].reduce(day - 1, +)
        // 1 January 2001 is day 730,485 of the Gregorian calendar.
        let seconds = (days - 730_485) * 86_400 + parts[3] * 3_600 + parts[4] * 60 + parts[5]
        return Date(timeIntervalSinceReferenceDate: Double(seconds))
    }
}

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
