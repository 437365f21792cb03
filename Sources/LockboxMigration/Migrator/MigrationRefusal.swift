import LockboxCore

/// The reason why an item was not migrated. The migration leaves the old item unchanged.
///
/// Minor versions may add cases.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum MigrationRefusal: Error, Sendable, Hashable, Codable {
    /// The bytes are not a valid encoding of the item's type.
    case malformed(reason: String)
    /// The data is well-formed, but cannot be read without guessing or loss.
    case ambiguous(reason: String)
    /// The archive contains an instance of this class, which is not supported.
    case unknownClass(String)
    /// The value is not of this type.
    case wrongType(expected: String)
    /// The new key already holds another value.
    case destinationExists
    /// Another program changed the old item, or the new one, during the migration. The next run tries again.
    case changed
    /// The value cannot be stored in the new format.
    case notStorable(reason: String)
}

extension MigrationRefusal: CustomStringConvertible {
    /// The reason, without any value.
    public var description: String {
        switch self {
        case .malformed(let reason), .ambiguous(let reason), .notStorable(let reason): reason
        case .unknownClass(let name): "it contains an instance of \(name), which is not supported"
        case .wrongType(let expected): "it is not a value of the type \(expected)"
        case .destinationExists: "the new key already holds another value"
        case .changed: "it was changed during the migration"
        }
    }
}

extension MigrationRefusal {
    init(_ error: SourceError) {
        switch error {
        case .unknownClass(let name): self = .unknownClass(name)
        case .unsupported, .severalItems: self = .ambiguous(reason: error.description)
        case .notDecodable(let type): self = .wrongType(expected: type)
        default: self = .malformed(reason: error.description)
        }
    }
}
