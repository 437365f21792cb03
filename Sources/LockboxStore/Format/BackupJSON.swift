@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// JSON as bytes (RFC 8259), where its very bytes matter.
struct BackupJSON {
    /// An object in one line.
    struct Line {
        private var bytes: [UInt8] = [UInt8(ascii: "{")]

        init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

        mutating func add(_ name: String, _ json: some Sequence<UInt8>) {
            if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
            BackupJSON.append(name, to: &bytes)
            bytes.append(UInt8(ascii: ":"))
            bytes += json
        }

        mutating func add(_ name: String, _ text: String?) {
            if let text { add(name, BackupJSON.string(text)) }
        }

        consuming func finished() -> [UInt8] {
            bytes += [UInt8(ascii: "}"), 10]
            return bytes
        }
    }

    static func string(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        append(text, to: &bytes)
        return bytes
    }

    private static func append(_ text: String, to bytes: inout [UInt8]) {
        let (quote, backslash) = (UInt8(ascii: "\""), UInt8(ascii: "\\"))
        bytes.append(quote)
        for byte in text.utf8 {
            switch byte {
            case quote, backslash: bytes += [backslash, byte]
            case ..<32: bytes += "\\u00\(byte < 16 ? "0" : "")\(String(byte, radix: 16))".utf8
            default: bytes.append(byte)
            }
        }
        bytes.append(quote)
    }

    /// Returns nil if it is no string, or not UTF-8.
    static func string(_ json: ArraySlice<UInt8>) -> String? {
        guard json.first == UInt8(ascii: "\"") else { return nil }
        let text = json.dropFirst().dropLast()
        if text.contains(UInt8(ascii: "\\")) {
            return try? JSONDecoder().decode(String.self, from: Data(json))
        }
        return String(validating: text, as: UTF8.self)
    }

    /// An object's members by their names, each once.
    struct Members {
        private let bytes: ArraySlice<UInt8>
        private var ranges: [String: Range<Int>] = [:]

        /// - Throws: ``BackupError`` if the bytes are not an object in UTF-8 and nothing else, but for space around it.
        init(of bytes: ArraySlice<UInt8>) throws(BackupError) {
            self.bytes = bytes
            var json = BackupJSON(bytes)
            var ranges: [String: Range<Int>] = [:]
            json.skipSpace()
            let isObject = json.skipObject(0) { name, range in
                guard let name = BackupJSON.string(bytes[name]) else { return false }
                return ranges.updateValue(range, forKey: name) == nil
            }
            json.skipSpace()
            guard isObject, json.index == bytes.endIndex, String(validating: bytes, as: UTF8.self) != nil
            else { throw .line }
            self.ranges = ranges
        }

        func required<Member>(
            _ name: String,
            _ member: (String) throws(BackupError) -> Member?
        ) throws(BackupError) -> Member {
            guard let member = try member(name) else { throw BackupError.damaged("a line has no \(name)") }
            return member
        }

        func json(_ name: String) -> ArraySlice<UInt8>? { ranges[name].map { bytes[$0] } }

        func string(_ name: String) throws(BackupError) -> String? {
            guard let json = json(name) else { return nil }
            guard let string = BackupJSON.string(json) else { throw .line }
            return string
        }

        func number(_ name: String) throws(BackupError) -> Double? {
            guard let json = json(name) else { return nil }
            guard let number = Double(String(decoding: json, as: UTF8.self)) else { throw .line }
            return number
        }

        /// A number of things, as it is written: without a fraction or an exponent.
        func count(_ name: String) throws(BackupError) -> Int? {
            guard let json = json(name) else { return nil }
            guard let count = Int(String(decoding: json, as: UTF8.self)), count >= 0,
                json.elementsEqual("\(count)".utf8)
            else { throw .line }
            return count
        }

        func bool(_ name: String) throws(BackupError) -> Bool? {
            guard let json = json(name) else { return nil }
            guard let bool = Bool(String(decoding: json, as: UTF8.self)) else { throw .line }
            return bool
        }

        func date(_ name: String) throws(BackupError) -> Date? {
            guard json(name)?.first == UInt8(ascii: "\"") else {
                return try number(name).map(Date.init(timeIntervalSinceReferenceDate:))
            }
            guard let date = try string(name).flatMap(BackupDate.date) else { throw .line }
            return date
        }

        func strings(_ name: String) throws(BackupError) -> [String: String] {
            guard let json = json(name) else { return [:] }
            let members = try Members(of: json)
            var strings: [String: String] = [:]
            for name in members.ranges.keys { strings[name] = try members.string(name) }
            return strings
        }
    }

    private let bytes: ArraySlice<UInt8>
    private var index: Int
    private static let maximumDepth = 512

    private init(_ bytes: ArraySlice<UInt8>) { (self.bytes, index) = (bytes, bytes.startIndex) }

    /// Whether these are a value in UTF-8 that a line can have, and nothing else.
    static func isValue(_ bytes: [UInt8]) -> Bool {
        var json = BackupJSON(bytes[...])
        return json.skipValue(1) && json.index == bytes.count
            && String(validating: bytes, as: UTF8.self) != nil
    }

    private var next: UInt8? { index < bytes.endIndex ? bytes[index] : nil }

    private mutating func skip(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        index += 1
        return true
    }

    private mutating func skipSpace() {
        while let next, next == 32 || next == 9 || next == 10 || next == 13 { index += 1 }
    }

    private mutating func skipValue(_ depth: Int) -> Bool {
        if depth > Self.maximumDepth { return false }
        switch next {
        case UInt8(ascii: "{"): return skipObject(depth) { _, _ in true }
        case UInt8(ascii: "["): return skipArray(depth)
        case UInt8(ascii: "\""): return skipString()
        case UInt8(ascii: "t"): return skipWord("true")
        case UInt8(ascii: "f"): return skipWord("false")
        case UInt8(ascii: "n"): return skipWord("null")
        default: return skipNumber()
        }
    }

    private mutating func skipWord(_ word: StaticString) -> Bool {
        word.withUTF8Buffer { word in
            guard bytes[index...].starts(with: word) else { return false }
            index += word.count
            return true
        }
    }

    private mutating func skipObject(
        _ depth: Int,
        _ member: (_ name: Range<Int>, _ value: Range<Int>) -> Bool
    ) -> Bool {
        guard skip("{") else { return false }
        skipSpace()
        if skip("}") { return true }
        repeat {
            skipSpace()
            let name = index
            guard skipString() else { return false }
            let end = index
            skipSpace()
            guard skip(":") else { return false }
            skipSpace()
            let value = index
            guard skipValue(depth + 1), member(name..<end, value..<index) else { return false }
            skipSpace()
        } while skip(",")
        return skip("}")
    }

    private mutating func skipArray(_ depth: Int) -> Bool {
        guard skip("[") else { return false }
        skipSpace()
        if skip("]") { return true }
        repeat {
            skipSpace()
            guard skipValue(depth + 1) else { return false }
            skipSpace()
        } while skip(",")
        return skip("]")
    }

    private mutating func skipString() -> Bool {
        guard skip("\"") else { return false }
        while let byte = next {
            index += 1
            switch byte {
            case UInt8(ascii: "\""): return true
            case ..<32: return false
            case UInt8(ascii: "\\"):
                guard let escaped = next else { return false }
                index += 1
                if escaped == UInt8(ascii: "u") {
                    guard
                        bytes[index...].prefix(4).count(where: { Character(Unicode.Scalar($0)).isHexDigit })
                            == 4
                    else {
                        return false
                    }
                    index += 4
                } else if !Array("\"\\/bfnrt".utf8).contains(escaped) {
                    return false
                }
            default: break
            }
        }
        return false
    }

    private mutating func skipDigits() -> Bool {
        let start = index
        while let next, (48...57).contains(next) { index += 1 }
        return index > start
    }

    private mutating func skipNumber() -> Bool {
        _ = skip("-")
        if !skip("0"), !skipDigits() { return false }
        if skip("."), !skipDigits() { return false }
        guard skip("e") || skip("E") else { return true }
        if !skip("+") { _ = skip("-") }
        return skipDigits()
    }
}
