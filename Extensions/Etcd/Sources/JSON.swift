#if Etcd
    import LockboxPlatform

    /// Reads the objects of answers (RFC 8259). Members that are not known are skipped, as etcd may add some.
    ///
    /// See ``JSONWriter`` for why it is not `JSONDecoder`.
    struct JSONReader {
        struct Malformed: Error {}

        private let bytes: UnsafeRawBufferPointer
        private var position = 0
        private var depth = 0
        /// How many more elements its arrays may have. Those that are skipped do not count.
        private var elements: Int

        /// Far more than any answer has.
        private static let maximumDepth = 32

        /// - Parameter elements: How many elements all of its arrays may have together: each needs far more memory than bytes
        ///   in the message.
        /// - Throws: ``Malformed`` if the bytes are not one such message.
        static func read<M: Message>(_ type: M.Type = M.self, _ body: Data, elements: Int = 0) throws -> M {
            try body.withUnsafeBytes { bytes in
                var json = JSONReader(bytes: bytes, elements: elements)
                let message = try M(&json)
                json.skipSpace()
                guard json.position == bytes.count else { throw Malformed() }
                return message
            }
        }

        private init(bytes: UnsafeRawBufferPointer, elements: Int) {
            self.bytes = bytes
            self.elements = elements
        }

        // MARK: Values

        /// Calls a closure at each member's value, which it must read. Values that are null are left out.
        mutating func object(_ member: (inout JSONReader, _ name: String) throws -> Void) throws {
            try sequence("{", "}") { json in
                let name = try json.text()
                try json.expect(":")
                if !json.takeNull() { try member(&json, name) }
            }
        }

        mutating func array<Element>(_ element: (inout JSONReader) throws -> Element) throws -> [Element] {
            var elements: [Element] = []
            try sequence("[", "]") { json in
                json.elements -= 1
                if json.elements < 0 { throw Malformed() }
                elements.append(try element(&json))
            }
            return elements
        }

        /// Decodes base64.
        mutating func data() throws -> Data {
            guard let data = Data(base64Encoded: Data(try string().bytes)) else { throw Malformed() }
            return data
        }

        /// A number that has a next one. etcd's revisions are signed.
        mutating func revision() throws -> UInt64 {
            let revision = try number()
            if revision >= UInt64(Int64.max) { throw Malformed() }
            return revision
        }

        /// The gateway writes integers of 64 bits as texts, and others as numbers.
        mutating func number() throws -> UInt64 {
            let isText = take("\"")
            let start = position
            var number: UInt64 = 0
            while let digit = next.map({ $0 &- UInt8(ascii: "0") }), digit < 10 {
                let (tens, isTooLarge) = number.multipliedReportingOverflow(by: 10)
                let (sum, isTooLargeNow) = tens.addingReportingOverflow(UInt64(digit))
                if isTooLarge || isTooLargeNow { throw Malformed() }
                number = sum
                position += 1
            }
            guard position > start, !isText || next == UInt8(ascii: "\"") else { throw Malformed() }
            if isText { position += 1 }
            return number
        }

        mutating func bool() throws -> Bool {
            if take("true") { return true }
            try expect("false")
            return false
        }

        mutating func text() throws -> String {
            let (bytes, isEscaped) = try string()
            return isEscaped ? try Self.unescaped(bytes) : String(decoding: bytes, as: UTF8.self)
        }

        /// Whatever it is.
        mutating func skip() throws {
            skipSpace()
            switch next {
            case UInt8(ascii: "{"): try object { json, _ in try json.skip() }
            case UInt8(ascii: "["): try sequence("[", "]") { try $0.skip() }
            case UInt8(ascii: "\""): _ = try string()
            default:
                // A number, or a word.
                let start = position
                while let byte = next, Self.isOfWord(byte) { position += 1 }
                if position == start { throw Malformed() }
            }
        }

        // MARK: Parts

        private static func isOfWord(_ byte: UInt8) -> Bool {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "E"),
                UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
                true
            default: false
            }
        }

        private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

        private mutating func skipSpace() {
            while let byte = next, byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D {
                position += 1
            }
        }

        private mutating func take(_ word: StaticString) -> Bool {
            skipSpace()
            guard bytes.count - position >= word.utf8CodeUnitCount,
                memcmp(bytes.baseAddress! + position, word.utf8Start, word.utf8CodeUnitCount) == 0
            else { return false }
            position += word.utf8CodeUnitCount
            return true
        }

        private mutating func takeNull() -> Bool { take("null") }

        private mutating func expect(_ word: StaticString) throws {
            if !take(word) { throw Malformed() }
        }

        private mutating func sequence(
            _ opening: StaticString,
            _ closing: StaticString,
            _ element: (inout JSONReader) throws -> Void
        ) throws {
            try expect(opening)
            depth += 1
            if depth > Self.maximumDepth { throw Malformed() }
            if !take(closing) {
                repeat { try element(&self) } while take(",")
                try expect(closing)
            }
            depth -= 1
        }

        /// The bytes between quotes, as they are written.
        private mutating func string() throws -> (bytes: Slice<UnsafeRawBufferPointer>, isEscaped: Bool) {
            try expect("\"")
            let start = position
            var isEscaped = false
            while let byte = next {
                if byte == UInt8(ascii: "\"") {
                    position += 1
                    return (bytes[start..<(position - 1)], isEscaped)
                }
                if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                    position += 1
                }
                position += 1
            }
            throw Malformed()
        }

        private static func unescaped(_ bytes: Slice<UnsafeRawBufferPointer>) throws -> String {
            var units: [UInt16] = []
            var rest = bytes
            while let byte = rest.popFirst() {
                guard byte == UInt8(ascii: "\\") else {
                    let part = [byte] + rest.prefix { $0 != UInt8(ascii: "\\") }
                    rest = rest.dropFirst(part.count - 1)
                    units += String(decoding: part, as: UTF8.self).utf16
                    continue
                }
                guard let escape = rest.popFirst() else { throw Malformed() }
                if escape == UInt8(ascii: "u") {
                    guard rest.count >= 4,
                        let unit = UInt16(String(decoding: rest.prefix(4), as: UTF8.self), radix: 16)
                    else { throw Malformed() }
                    rest = rest.dropFirst(4)
                    units.append(unit)
                } else {
                    guard let unit = escapes[escape] else { throw Malformed() }
                    units.append(unit)
                }
            }
            return String(decoding: units, as: UTF16.self)
        }

        private static let escapes: [UInt8: UInt16] = [
            UInt8(ascii: "\""): 0x22, UInt8(ascii: "\\"): 0x5C, UInt8(ascii: "/"): 0x2F,
            UInt8(ascii: "b"): 0x08,
            UInt8(ascii: "f"): 0x0C, UInt8(ascii: "n"): 0x0A, UInt8(ascii: "r"): 0x0D,
            UInt8(ascii: "t"): 0x09,
        ]
    }

    /// Writes the objects of requests: bytes in base64, 64-bit integers as texts. Leaves out nil.
    ///
    /// Reads and writes take a tenth less time than with `JSONEncoder` and `JSONDecoder`, whose code is no longer in the
    /// processor's caches when an answer arrives.
    struct JSONWriter {
        fileprivate(set) var bytes: [UInt8] = []
        private var isFirst = true

        mutating func object(_ members: (inout JSONWriter) -> Void) {
            bytes.append(UInt8(ascii: "{"))
            isFirst = true
            members(&self)
            bytes.append(UInt8(ascii: "}"))
            isFirst = false
        }

        mutating func add(_ name: String, _ value: Data?) {
            guard let value else { return }
            begin(name)
            bytes.append(UInt8(ascii: "\""))
            bytes.append(contentsOf: value.base64EncodedString().utf8)
            bytes.append(UInt8(ascii: "\""))
        }

        mutating func add(_ name: String, _ number: UInt64?) {
            if let number { add(name, String(number)) }
        }

        mutating func add(_ name: String, _ text: String?) {
            guard let text else { return }
            begin(name)
            write(text)
        }

        mutating func add(_ name: String, _ flag: Bool?) {
            guard let flag else { return }
            begin(name)
            bytes.append(contentsOf: (flag ? "true" : "false").utf8)
        }

        mutating func add(_ name: String, _ request: (any Request)?) {
            guard let request else { return }
            begin(name)
            object(request.write)
        }

        mutating func add(_ name: String, _ requests: [some Request]) {
            begin(name)
            bytes.append(UInt8(ascii: "["))
            for (index, request) in requests.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                object(request.write)
            }
            bytes.append(UInt8(ascii: "]"))
        }

        private mutating func begin(_ name: String) {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            bytes.append(UInt8(ascii: "\""))
            bytes.append(contentsOf: name.utf8)
            bytes.append(UInt8(ascii: "\""))
            bytes.append(UInt8(ascii: ":"))
        }

        private mutating func write(_ text: String) {
            bytes.append(UInt8(ascii: "\""))
            for byte in text.utf8 {
                switch byte {
                case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                    bytes.append(UInt8(ascii: "\\"))
                    bytes.append(byte)
                case 0..<0x20:
                    let digits = String(byte, radix: 16)
                    bytes.append(contentsOf: "\\u00\(digits.utf8.count == 1 ? "0" : "")\(digits)".utf8)
                default: bytes.append(byte)
                }
            }
            bytes.append(UInt8(ascii: "\""))
        }
    }
#endif
