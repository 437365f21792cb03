import Lockbox

extension ArchivedValue {
    /// The value for programs that do not know Lockbox: the characters of a string, otherwise the stored bytes.
    func plain(_ key: String) throws -> Data {
        guard format == .json, data.first(where: { !Self.spaces.contains($0) }) == UInt8(ascii: "\"") else {
            return data
        }
        return Data(try decode(String.self, key).utf8)
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
