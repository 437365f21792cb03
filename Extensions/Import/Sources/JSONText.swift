import LockboxCore
import LockboxPlatform

/// Reads JSON (RFC 8259), with the position of each top-level member. Numbers that would lose precision are
/// refused.
struct JSONText {
    private var cursor: ByteCursor
    private var depth = 0
    /// Why the current member has no value although its JSON is valid.
    private var firstError: SourceError?

    /// Returns the members of the top-level object.
    static func entries(_ bytes: [UInt8]) throws(SourceError) -> [SourceFile.Entry] {
        var text = JSONText(cursor: ByteCursor(bytes))
        _ = text.cursor.take("\u{FEFF}")
        text.skipSpace()
        guard text.cursor.next == UInt8(ascii: "{") else {
            throw .unsupported("its top-level value is not an object")
        }
        var entries: [SourceFile.Entry] = []
        try text.members { (text, start, name) throws(SourceError) in
            text.firstError = nil
            let value = try text.value()
            entries.append(
                SourceFile.Entry(
                    name: name,
                    value: text.firstError.map(Result.failure) ?? .success(value),
                    range: start..<text.cursor.position
                )
            )
        }
        text.skipSpace()
        guard text.cursor.isAtEnd else { throw text.cursor.malformed("there is text after the end") }
        return entries
    }

    /// Returns the ranges to remove so that exactly one comma remains between two remaining members.
    static func cuts(_ members: [Range<Int>], _ isRemoved: [Bool]) -> [Range<Int>] {
        let kept = isRemoved.firstIndex(of: false) ?? members.count
        guard kept < members.count else { return [members[0].lowerBound..<members[kept - 1].upperBound] }
        var cuts = kept > 0 ? [members[0].lowerBound..<members[kept].lowerBound] : []
        for index in members.indices where index > kept && isRemoved[index] {
            cuts.append(members[index - 1].upperBound..<members[index].upperBound)
        }
        return cuts
    }

    private mutating func skipSpace() { cursor.skip(\.isWhitespace) }

    private mutating func members(
        _ read: (inout JSONText, _ start: Int, _ name: String) throws(SourceError) -> Void
    ) throws(SourceError) {
        try sequence("{", "}") { text throws(SourceError) in
            let start = text.cursor.position
            let name = try text.string()
            text.skipSpace()
            try text.cursor.expect(":")
            text.skipSpace()
            try read(&text, start, name)
        }
    }

    /// Reads comma-separated elements between brackets.
    private mutating func sequence(
        _ opening: StaticString,
        _ closing: StaticString,
        _ element: (inout JSONText) throws(SourceError) -> Void
    ) throws(SourceError) {
        guard depth < PropertyValue.maximumDepth else { throw .tooDeep }
        depth += 1
        try cursor.expect(opening)
        skipSpace()
        if !cursor.take(closing) {
            repeat {
                skipSpace()
                try element(&self)
                skipSpace()
            } while cursor.take(",")
            try cursor.expect(closing)
        }
        depth -= 1
    }

    private mutating func value() throws(SourceError) -> PropertyValue {
        if cursor.take("null") { return .null }
        if cursor.take("true") { return .boolean(true) }
        if cursor.take("false") { return .boolean(false) }
        switch cursor.next {
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "{"):
            var (keys, values): ([PropertyValue], [PropertyValue]) = ([], [])
            try members { (text, _, name) throws(SourceError) in
                keys.append(.string(name))
                values.append(try text.value())
            }
            return try .dictionary(keys: keys, values: values)
        case UInt8(ascii: "["):
            var elements: [PropertyValue] = []
            try sequence("[", "]") { text throws(SourceError) in elements.append(try text.value()) }
            return .array(elements)
        default: return try number()
        }
    }

    private mutating func number() throws(SourceError) -> PropertyValue {
        let start = cursor.position
        _ = cursor.take("-")
        let digits = cursor.taking(\.isDigit)
        guard let first = digits.first, first != UInt8(ascii: "0") || digits.count == 1 else {
            throw cursor.malformed("a value is missing")
        }
        var isWhole = true
        if cursor.take(".") {
            isWhole = false
            guard !cursor.taking(\.isDigit).isEmpty else { throw cursor.malformed("a number is cut short") }
        }
        if cursor.take("e") || cursor.take("E") {
            isWhole = false
            _ = cursor.take("+") || cursor.take("-")
            guard !cursor.taking(\.isDigit).isEmpty else { throw cursor.malformed("a number is cut short") }
        }
        let text = String(utf8: cursor.bytes[start..<cursor.position])
        // An integer cannot represent -0.
        let number = isWhole && text != "-0" ? NumberText.integer(text) : NumberText.real(text)
        if let number { return number }
        firstError = cursor.unsupported("a number has more digits than can be stored exactly")
        return .null
    }

    // MARK: Strings

    private mutating func string() throws(SourceError) -> String {
        try cursor.expect("\"")
        var text: [UInt8] = []
        while true {
            text += cursor.taking { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
            if cursor.take("\"") { return String(utf8: text) }
            guard cursor.take("\\"), let escape = cursor.next else {
                throw cursor.malformed("a string is not closed")
            }
            cursor.advance()
            if escape == UInt8(ascii: "u") {
                text += Array(String(Character(try escapedScalar())).utf8)
            } else {
                guard let byte = Self.escapes[escape] else { throw cursor.malformed("an escape is unknown") }
                text.append(byte)
            }
        }
    }

    private static let escapes: [UInt8: UInt8] = [
        UInt8(ascii: "\""): UInt8(ascii: "\""), UInt8(ascii: "\\"): UInt8(ascii: "\\"),
        UInt8(ascii: "/"): UInt8(ascii: "/"), UInt8(ascii: "b"): 0x08, UInt8(ascii: "f"): 0x0C,
        UInt8(ascii: "n"): 0x0A, UInt8(ascii: "r"): 0x0D, UInt8(ascii: "t"): 0x09,
    ]

    private mutating func escapedScalar() throws(SourceError) -> Unicode.Scalar {
        let unit = try escapedUnit()
        if let scalar = Unicode.Scalar(unit) { return scalar }
        guard UTF16.isLeadSurrogate(unit), cursor.take("\\u") else {
            throw cursor.malformed("a string has an unpaired surrogate")
        }
        let trail = try escapedUnit()
        guard UTF16.isTrailSurrogate(trail) else {
            throw cursor.malformed("a string has an unpaired surrogate")
        }
        return UTF16.decode(UTF16.EncodedScalar([unit, trail]))
    }

    private mutating func escapedUnit() throws(SourceError) -> UInt16 {
        let start = cursor.position
        for _ in 0..<4 { cursor.advance() }
        let digits = cursor.bytes[start..<cursor.position]
        guard digits.count == 4, digits.allSatisfy({ $0.isDigit || $0.isLetter }),
            let unit = UInt16(String(utf8: digits), radix: 16)
        else { throw cursor.malformed("an escape is cut short") }
        return unit
    }
}

/// Parses numbers of JSON and property lists, if an Int64, UInt64 or Double can represent them without loss.
enum NumberText {
    /// Returns a whole number, or nil if it does not fit into 64 bits.
    static func integer(_ text: String) -> PropertyValue? {
        Int64(text).map(PropertyValue.integer) ?? UInt64(text).map(PropertyValue.unsigned)
    }

    /// Returns a whole number as Apple's reader of XML property lists accepts it: an optional sign and decimal
    /// digits, or `0x` and hexadecimal digits. Spaces may precede the sign and the digits. Returns nil if it does not
    /// fit into 64 bits.
    static func propertyListInteger(_ text: String) -> PropertyValue? {
        var rest = text.utf8.drop(while: \.isWhitespace)
        let isNegative = rest.first == UInt8(ascii: "-")
        if isNegative || rest.first == UInt8(ascii: "+") {
            rest = rest.dropFirst().drop(while: \.isWhitespace)
        }
        let isHexadecimal = rest.starts(with: "0x".utf8) || rest.starts(with: "0X".utf8)
        if isHexadecimal { rest = rest.dropFirst(2) }
        // A second sign is none of the digits.
        guard let first = rest.first, first.isDigit || first.isLetter,
            let magnitude = UInt64(Substring(rest), radix: isHexadecimal ? 16 : 10)
        else { return nil }
        guard isNegative else { return PropertyValue(magnitude) }
        return magnitude <= Int64.min.magnitude ? .integer(Int64(truncatingIfNeeded: 0 &- magnitude)) : nil
    }

    /// Returns the Double that, rounded to as many digits as the text has, equals the text, or nil if there is
    /// none.
    static func real(_ text: String) -> PropertyValue? {
        guard let number = Double(text), number.isFinite, let written = parts(text) else { return nil }
        // A Double holds every number of up to 15 digits, unless it is among the smallest.
        if written.digits.isEmpty || written.digits.count <= 15 && number.isNormal { return .real(number) }
        guard written.digits.count <= 800 else { return nil }
        let again = scientific(number, fractionDigits: written.digits.count - 1)
        guard let read = parts(again), read == written else { return nil }
        return .real(number)
    }

    /// Formats a number like `%.*e` in C.
    private static func scientific(_ number: Double, fractionDigits: Int) -> String {
        withVaList([CInt(fractionDigits), number]) { arguments in
            // Room for sign, one digit, point, exponent and the terminating zero.
            let count = fractionDigits + 16
            return withUnsafeTemporaryAllocation(of: CChar.self, capacity: count) { buffer in
                vsnprintf(buffer.baseAddress!, count, "%.*e", arguments)
                return String(cString: buffer.baseAddress!)
            }
        }
    }

    /// Returns the digits without leading and trailing zeros, and the exponent of the last one.
    private static func parts(_ text: String) -> (digits: [UInt8], exponent: Int)? {
        var digits: [UInt8] = []
        var (exponent, fraction, trailing) = (0, 0, 0)
        var isFraction = false
        var rest = ByteCursor(Array(text.utf8))
        if !rest.take("-") { _ = rest.take("+") }
        while let byte = rest.next {
            rest.advance()
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"):
                if isFraction { fraction += 1 }
                if byte != UInt8(ascii: "0") || !digits.isEmpty { digits.append(byte) }
                trailing = byte == UInt8(ascii: "0") && !digits.isEmpty ? trailing + 1 : 0
            case UInt8(ascii: ".") where !isFraction: isFraction = true
            case UInt8(ascii: "e"), UInt8(ascii: "E"):
                guard let number = Int(String(utf8: rest.taking { _ in true })), number.magnitude < 1 << 32
                else { return nil }
                exponent = number
            default: return nil
            }
        }
        digits.removeLast(trailing)
        return (digits, digits.isEmpty ? 0 : exponent - fraction + trailing)
    }
}

/// Limits the expansion of objects that refer to each other. Each object is created once, and the expanded size
/// of shared objects is counted, because a few bytes can describe more values than fit into memory.
final class Unfolding {
    private struct Known {
        let value: PropertyValue
        let weight: Int
        let length: Int
        let height: Int
    }

    private var known: [Int: Known] = [:]
    private var weight = 0
    private var length = 0
    private var depth = 0
    /// The maximum depth reached in the current object.
    private var deepest = 0
    private let limit: Int

    /// - Parameter size: The size of the file in bytes. Expanded, it may have 65,536 values plus 16 for each byte,
    ///   and as many bytes as a value can have.
    init(size: Int) { limit = 16 * size + 64 << 10 }

    /// Returns the value of an object of `length` bytes, which `make` creates the first time.
    func value(
        of object: Int,
        length: Int,
        _ make: () throws(SourceError) -> PropertyValue
    ) throws(SourceError) -> PropertyValue {
        if let known = known[object] {
            try charge(known.weight, length: known.length)
            try reach(depth + known.height)
            return known.value
        }
        let (weight, before, deepest) = (weight, self.length, deepest)
        try charge(1, length: length)
        try reach(depth + 1)
        depth += 1
        self.deepest = depth
        defer {
            depth -= 1
            self.deepest = max(deepest, self.deepest)
        }
        let value = try make()
        known[object] = Known(
            value: value,
            weight: self.weight - weight,
            length: self.length - before,
            height: self.deepest - depth + 1
        )
        return value
    }

    /// Counts bytes that are not values.
    func charge(_ weight: Int, length: Int = 0) throws(SourceError) {
        self.weight += weight
        self.length += length
        guard self.weight <= limit, self.length <= ArchivedValue.maximumSize else { throw .tooLarge }
    }

    private func reach(_ depth: Int) throws(SourceError) {
        guard depth <= PropertyValue.maximumDepth else { throw .tooDeep }
        deepest = max(deepest, depth)
    }
}
