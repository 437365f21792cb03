import LockboxCore

/// Why an item was not migrated. It is as it was.
public enum MigrationRefusal: Error, Sendable, Hashable {
    /// The bytes are not what they should be an encoding of.
    case malformed(reason: String)
    /// The bytes can stand for more than one value.
    case ambiguous(reason: String)
    /// The archive holds an instance of this class, which is none of those that are read.
    case unknownClass(String)
    /// The value is of another type than this one.
    case wrongType(expected: String)
    /// There is another value under the new key.
    case destinationTaken
    /// It was changed by somebody else during the migration. The new item has the value from before.
    case changed
    /// The value cannot be stored in the new form.
    case notStorable(reason: String)
}

extension MigrationRefusal: CustomStringConvertible {
    /// The reason, without any value.
    public var description: String {
        switch self {
        case .malformed(let reason), .ambiguous(let reason), .notStorable(let reason): reason
        case .unknownClass(let name): "it holds an instance of \(name), which is not read"
        case .wrongType(let expected): "it is not a value of the type \(expected)"
        case .destinationTaken: "there is another value under the new key"
        case .changed: "it was changed during the migration"
        }
    }
}

extension MigrationRefusal {
    init(_ fault: SourceError) {
        switch fault {
        case .unknownClass(let name): self = .unknownClass(name)
        case .unsupported: self = .ambiguous(reason: fault.description)
        case .notDecodable(let type): self = .wrongType(expected: type)
        default: self = .malformed(reason: fault.description)
        }
    }
}
