#if SecretService
    import CSystemd
    import LockboxPlatform

    /// A message of D-Bus. sd-bus encodes and decodes it, and checks lengths, depths and texts.
    ///
    /// Arguments are read and appended in their order.
    final class BusMessage {
        let raw: OpaquePointer
        /// About how many bytes were appended.
        private(set) var size = 256

        /// Takes over a reference.
        init(_ raw: OpaquePointer) {
            self.raw = raw
            // Most have secrets: sd-bus overwrites the memory.
            sd_bus_message_sensitive(raw)
        }

        deinit { sd_bus_message_unref(raw) }

        /// The types of all arguments.
        var signature: String { sd_bus_message_get_signature(raw, 1).map { String(cString: $0) } ?? "" }

        func isSignal(_ member: String, from path: String) -> Bool {
            sd_bus_message_is_signal(raw, nil, member) > 0
                && sd_bus_message_get_path(raw).map { String(cString: $0) } == path
        }

        // MARK: Reading

        func text() throws -> String { try basic("s") }

        func path() throws -> String { try basic("o") }

        private func basic(_ type: Character) throws -> String {
            var text: UnsafePointer<CChar>?
            guard try sd_bus_message_read_basic(raw, type.code, &text).checked() > 0, let text else {
                throw BusError.invalidArguments("An argument is missing.")
            }
            return String(cString: text)
        }

        func flag() throws -> Bool {
            var value: CInt = 0
            try sd_bus_message_read_basic(raw, Character("b").code, &value).checked()
            return value != 0
        }

        func count() throws -> UInt32 {
            var value: UInt32 = 0
            try sd_bus_message_read_basic(raw, Character("u").code, &value).checked()
            return value
        }

        func number() throws -> UInt64 {
            var value: UInt64 = 0
            try sd_bus_message_read_basic(raw, Character("t").code, &value).checked()
            return value
        }

        func bytes() throws -> [UInt8] {
            var (start, count): (UnsafeRawPointer?, Int) = (nil, 0)
            try sd_bus_message_read_array(raw, Character("y").code, &start, &count).checked()
            return Array(UnsafeRawBufferPointer(start: start, count: count))
        }

        func array<Element>(of type: String, _ element: () throws -> Element) throws -> [Element] {
            try inside("a", type) {
                var elements: [Element] = []
                while sd_bus_message_at_end(raw, 0) == 0 { elements.append(try element()) }
                return elements
            }
        }

        /// One call keeps the others waiting, so there is a limit.
        func paths() throws -> [String] {
            var count = 0
            return try array(of: "o") {
                count += 1
                if count > 10_000 { throw BusError.tooMuch("The call names too many objects.") }
                return try path()
            }
        }

        /// If a name comes twice, the last one counts.
        ///
        /// - Throws: ``BusError`` for two names that are the same in Unicode, of which a store keeps one.
        func texts() throws -> [String: String] {
            let pairs = try array(of: "{ss}") { try inside("e", "ss") { (try text(), try text()) } }
            let texts = Dictionary(pairs) { $1 }
            if Set(pairs.map { Array($0.0.utf8) }).count > texts.count {
                throw BusError.invalidArguments("Two names of attributes are the same in Unicode.")
            }
            return texts
        }

        /// Reads the values for the names that `read` knows; it returns false for others, which are skipped.
        func properties(_ read: (String) throws -> Bool) throws {
            _ = try array(of: "{sv}") {
                try inside("e", "sv") {
                    if try !read(text()) { try sd_bus_message_skip(raw, "v").checked() }
                }
            }
        }

        /// Reads a value of any type, which must be this one.
        func variant<Value>(of type: String, _ value: () throws -> Value) throws -> Value {
            try inside("v", type, value)
        }

        func inside<Value>(_ kind: Character, _ contents: String, _ body: () throws -> Value) throws -> Value
        {
            guard try sd_bus_message_enter_container(raw, kind.code, contents).checked() > 0 else {
                throw BusError.invalidArguments("An argument is missing.")
            }
            let value = try body()
            try sd_bus_message_exit_container(raw).checked()
            return value
        }

        // MARK: Writing

        func append(_ text: String) throws { try append("s", text) }

        func append(path: String) throws { try append("o", path) }

        private func append(_ type: Character, _ text: String) throws {
            size += text.utf8.count + 8
            _ = try text.withCString { try sd_bus_message_append_basic(raw, type.code, $0).checked() }
        }

        func append(_ flag: Bool) throws {
            var value: CInt = flag ? 1 : 0
            try sd_bus_message_append_basic(raw, Character("b").code, &value).checked()
        }

        func append(_ number: UInt32) throws {
            var value = number
            try sd_bus_message_append_basic(raw, Character("u").code, &value).checked()
        }

        func append(_ number: UInt64) throws {
            var value = number
            try sd_bus_message_append_basic(raw, Character("t").code, &value).checked()
        }

        func append(_ bytes: some ContiguousBytes) throws {
            try bytes.withUnsafeBytes {
                size += $0.count
                _ = try sd_bus_message_append_array(raw, Character("y").code, $0.baseAddress, $0.count)
                    .checked()
            }
        }

        func appendArray<Elements: Sequence>(
            _ elements: Elements,
            of type: String,
            _ append: (Elements.Element) throws -> Void
        ) throws {
            try appendInside("a", type) { for element in elements { try append(element) } }
        }

        func append(paths: [String]) throws { try appendArray(paths, of: "o") { try append(path: $0) } }

        func append(texts: [String: String]) throws {
            try appendArray(texts, of: "{ss}") { name, text in
                try appendInside("e", "ss") {
                    try append(name)
                    try append(text)
                }
            }
        }

        func append(_ property: BusProperty) throws {
            try appendInside("v", property.type) {
                switch property {
                case .flag(let flag): try append(flag)
                case .text(let text): try append(text)
                case .number(let number): try append(number)
                case .paths(let paths): try append(paths: paths)
                case .texts(let texts): try append(texts: texts)
                case .bytes(let bytes): try append(bytes)
                }
            }
        }

        func append(_ properties: [String: BusProperty]) throws {
            try appendArray(properties, of: "{sv}") { name, property in
                try appendInside("e", "sv") {
                    try append(name)
                    try append(property)
                }
            }
        }

        func appendInside(_ kind: Character, _ contents: String, _ body: () throws -> Void) throws {
            try sd_bus_message_open_container(raw, kind.code, contents).checked()
            try body()
            try sd_bus_message_close_container(raw).checked()
        }
    }

    /// The value of a property.
    enum BusProperty {
        case flag(Bool)
        case text(String)
        case number(UInt64)
        case paths([String])
        case texts([String: String])
        case bytes([UInt8])

        var type: String {
            switch self {
            case .flag: "b"
            case .text: "s"
            case .number: "t"
            case .paths: "ao"
            case .texts: "a{ss}"
            case .bytes: "ay"
            }
        }
    }

    /// A method call: its address, and its arguments in ``message``.
    struct BusCall {
        let message: BusMessage
        /// The client's unique name, where others are on the bus.
        let sender: String?
        let destination: String?
        let path: String
        let interface: String?
        let member: String

        /// Returns nil for anything else than a method call.
        init?(_ message: BusMessage) {
            var type: UInt8 = 0
            guard sd_bus_message_get_type(message.raw, &type) >= 0, type == 1,
                let path = sd_bus_message_get_path(message.raw),
                let member = sd_bus_message_get_member(message.raw)
            else { return nil }
            self.message = message
            sender = sd_bus_message_get_sender(message.raw).map { String(cString: $0) }
            destination = sd_bus_message_get_destination(message.raw).map { String(cString: $0) }
            self.path = String(cString: path)
            interface = sd_bus_message_get_interface(message.raw).map { String(cString: $0) }
            self.member = String(cString: member)
        }

        /// Whether the call may be one of the interface: its name can be left out.
        func isOf(_ name: String) -> Bool { interface.map { $0 == name } ?? true }

        /// Checks the types of all arguments, and returns the message to read them from.
        func arguments(_ signature: String) throws -> BusMessage {
            guard message.signature == signature else {
                throw BusError.invalidArguments(
                    "\(member) takes \(signature.isEmpty ? "nothing" : signature)."
                )
            }
            return message
        }
    }

    /// Writes the arguments of an answer.
    typealias BusAnswer = (BusMessage) throws -> Void

    /// A signal, for every connection that listens.
    struct BusSignal {
        let path: String
        let interface: String
        let member: String
        let arguments: BusAnswer
    }

    extension Character {
        /// The code of a type of D-Bus.
        fileprivate var code: CChar { CChar(bitPattern: asciiValue ?? 0) }
    }
#endif
