/// Why a coder failed, without any value.
///
/// The coder's own texts may quote values, and so may the keys of dictionaries.
struct CodingReason: CustomStringConvertible {
    let description: String

    init(_ error: any Error) {
        description =
            switch error {
            case DecodingError.keyNotFound(let key, let context):
                "there is no \(Self.path(context.codingPath + [key]))"
            case DecodingError.valueNotFound(let type, let context):
                "\(Self.path(context.codingPath)) is null, and not of the type \(type)"
            case DecodingError.typeMismatch(let type, let context):
                "\(Self.path(context.codingPath)) is not of the type \(type)"
            case DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty:
                "it is not what the type's decoder accepts"
            case DecodingError.dataCorrupted(let context):
                "\(Self.path(context.codingPath)) is not what its type's decoder accepts"
            case EncodingError.invalidValue(_, let context):
                "\(Self.path(context.codingPath)) has a value that cannot be encoded, or is nested too deeply"
            case let error as Undecodable:
                "it could not be decoded again: \(CodingReason(error.underlying)). A Decimal that is NaN has no JSON"
            default: "its type threw an error of the type \(type(of: error))"
            }
    }

    /// Only a key that is a case of an enumeration without associated values is in the program's code, and not in the value.
    private static func path(_ keys: [any CodingKey]) -> String {
        if keys.isEmpty { return "it" }
        let names = keys.map { key in
            if let index = key.intValue { return "[\(index)]" }
            let mirror = Mirror(reflecting: key)
            return mirror.displayStyle == .enum && mirror.children.isEmpty ? ".\(key.stringValue)" : ".…"
        }
        return String(names.joined().drop { $0 == "." })
    }
}
