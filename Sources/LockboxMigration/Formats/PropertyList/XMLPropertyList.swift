import LockboxCore
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
