@_spi(Extensions) import Lockbox

/// A JSON value: null, a boolean, a number, a string, an array or an object.
enum JSONValue: Codable {
    case null
    case boolean(Bool)
    case integer(Int64)
    case unsigned(UInt64)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Int64.self) {
            self = .integer(value)
        } else if let value = try? container.decode(UInt64.self) {
            self = .unsigned(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(Bool.self) {
            self = .boolean(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .boolean(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .unsigned(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
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
        switch self {
        case .object(let members): members[String(name)]
        case .array(let elements): Int(name).flatMap { elements.indices.contains($0) ? elements[$0] : nil }
        default: nil
        }
    }
}

extension JSONValue {
    /// Whether the bytes are JSON according to RFC 8259. Foundation's decoder also accepts a trailing comma, a
    /// byte order mark, and other encodings than UTF-8.
    static func isStrict(_ json: Data) -> Bool {
        guard let text = String(validating: json, as: UTF8.self), !text.hasPrefix("\u{FEFF}"),
            !json.contains(0)
        else {
            return false
        }
        let isJSON = (try? JSONValueCoder().decode(JSONValue.self, from: json)) != nil
        return isJSON && !hasTrailingComma(json)
    }

    private static func hasTrailingComma(_ json: Data) -> Bool {
        var (isInString, isEscaped, isAfterComma) = (false, false, false)
        for byte in json {
            if isInString {
                if byte == UInt8(ascii: "\""), !isEscaped { isInString = false }
                isEscaped = byte == UInt8(ascii: "\\") && !isEscaped
                continue
            }
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\t"), UInt8(ascii: "\r"), UInt8(ascii: "\n"): continue
            case UInt8(ascii: "]"), UInt8(ascii: "}"): if isAfterComma { return true }
            case UInt8(ascii: "\""): isInString = true
            default: break
            }
            isAfterComma = byte == UInt8(ascii: ",")
        }
        return false
    }
}

extension ArchivedValue {
    /// The value for programs that do not know Lockbox: the characters of a string, otherwise the stored bytes.
    func plain(_ key: String) throws -> Data {
        guard format == .json, data.first(where: { !Self.spaces.contains($0) }) == UInt8(ascii: "\"") else {
            return data
        }
        return Data(try decode(String.self, key).utf8)
    }

    /// A part of a JSON value.
    func field(_ path: String, _ key: String) throws -> ArchivedValue {
        guard let part = try (format == .json ? decode(JSONValue.self, key) : nil)?[path[...]] else {
            throw Failure(
                .noSuchItem,
                "The value for the key \(String(reflecting: key)) has no member \(path.onOneLine)."
            )
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

    private static let spaces = Array(" \t\r\n".utf8)
}
