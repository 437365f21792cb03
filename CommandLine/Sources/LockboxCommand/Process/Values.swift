@_spi(Extensions) import Lockbox

/// A JSON value.
struct JSONValue: Codable {
    private let value: any Codable

    /// In the order in which they are tried.
    private static var types: [any Codable.Type] {
        [
            Bool?.self, Int64.self, UInt64.self, Double.self, String.self, [JSONValue].self,
            [String: JSONValue].self,
        ]
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        for type in Self.types {
            if let value = try? container.decode(type) {
                self.value = value
                return
            }
        }
        throw DecodingError.dataCorruptedError(in: container, debugDescription: "It is no JSON.")
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(value)
    }

    /// A member of an object by its name, or of an array by its number; dots separate the steps. A name may have dots too.
    subscript(path: Substring) -> JSONValue? {
        if let member = member(path) { return member }
        for dot in path.indices where path[dot] == "." {
            if let found = member(path[..<dot])?[path[path.index(after: dot)...]] { return found }
        }
        return nil
    }

    private func member(_ name: Substring) -> JSONValue? {
        if let members = value as? [String: JSONValue] { return members[String(name)] }
        guard let elements = value as? [JSONValue], let index = Int(name) else { return nil }
        return elements.indices.contains(index) ? elements[index] : nil
    }
}

extension JSONValue {
    /// The members of an object, or nil if the bytes are none.
    static func members(of json: Data) -> [String: JSONValue]? {
        isStrict(json) ? try? JSONValueCoder().decode([String: JSONValue].self, from: json) : nil
    }

    var isNull: Bool { (value as? Bool?) == .some(.none) }

    /// The members, if it is an object.
    var members: [String: JSONValue]? { value as? [String: JSONValue] }

    var text: String? { value as? String }

    init(_ members: [String: JSONValue]) { value = members }

    /// Whether it says nothing: null, false or a blank text.
    var isEmpty: Bool { isNull || value as? Bool == false || text?.allSatisfy(\.isWhitespace) ?? false }

    /// Whether the bytes are JSON according to RFC 8259. Foundation's decoder also accepts a trailing comma, a
    /// byte order mark, and other encodings than UTF-8.
    static func isStrict(_ json: Data) -> Bool {
        guard let text = String(validating: json, as: UTF8.self), !text.hasPrefix("\u{FEFF}") else {
            return false
        }
        let isJSON = !json.contains(0) && (try? JSONValueCoder().decode(JSONValue.self, from: json)) != nil
        return isJSON && !hasTrailingComma(json)
    }

    private static func hasTrailingComma(_ json: Data) -> Bool {
        var (isInString, isEscaped, isAfterComma) = (false, false, false)
        for byte in json {
            let isQuote = byte == UInt8(ascii: "\"") && !isEscaped
            isEscaped = isInString && byte == UInt8(ascii: "\\") && !isEscaped
            if isQuote { isInString.toggle() }
            if isInString || ArchivedValue.spaces.contains(byte) { continue }
            if isAfterComma, byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}") { return true }
            isAfterComma = byte == UInt8(ascii: ",")
        }
        return false
    }
}

extension ArchivedValue {
    /// The value for programs that do not know Lockbox: the characters of a string, otherwise the stored bytes.
    func plain(_ key: String) throws -> Data {
        isText ? Data(try decode(String.self, key).utf8) : data
    }

    /// Whether it is a string of JSON, as which text is stored.
    var isText: Bool {
        format == .json && data.first { !Self.spaces.contains($0) } == UInt8(ascii: "\"")
    }

    static func text(_ text: String) throws -> ArchivedValue {
        try ArchivedValue(data: JSONValueCoder().encode(text), format: .json)
    }

    /// Another text, as bytes if this one is.
    func with(text: String) throws -> ArchivedValue {
        try format == .json ? .text(text) : ArchivedValue(data: Data(text.utf8), format: format)
    }

    /// A part of a JSON value.
    func field(_ path: String, _ key: String) throws -> ArchivedValue {
        let value = try format == .json ? decode(JSONValue.self, key) : nil
        guard let part = value?[path[...]] else {
            let problem =
                value?.text == nil
                ? "has no member \(path.onOneLine)" : "is a text, not JSON, so it has no members"
            throw Failure(.noSuchItem, "The value for the key \(String(reflecting: key)) \(problem).")
        }
        return try ArchivedValue(data: JSONValueCoder().encode(part), format: .json)
    }

    /// The value as JSON.
    func json(_ key: String) throws -> Data {
        switch format {
        case .json: data
        case .data: try JSONValueCoder().encode(data)
        default:
            throw Failure(
                .conflict,
                "The value for the key \(String(reflecting: key)) is stored as \(format), which is not JSON. "
                    + "Leave out --json to print its bytes."
            )
        }
    }

    func decode<Value: Decodable>(_ type: Value.Type, _ key: String) throws -> Value {
        do { return try JSONValueCoder().decode(type, from: data) } catch {
            throw LockboxError.decodingFailed(key: key, type: "\(type)", underlying: error)
        }
    }

    fileprivate static let spaces = Array(" \t\r\n".utf8)
}
