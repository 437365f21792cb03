@_spi(Extensions) public import LockboxCore

/// The result of ``Lockbox``'s `migrate`.
public struct MigrationReport: StoreReport, Hashable, Codable {
    /// The outcome for an item.
    ///
    /// Minor versions may add cases.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Outcome: Sendable, Hashable, Codable {
        /// The item was stored in the new format, or moved as it is if it had one already. It was removed from
        /// the source unless the old items are kept.
        case migrated
        /// The item already exists in the new format, and there is no old one elsewhere, or it is kept. If the source is not the
        /// store itself, the next run checks again: an old one may appear later, for example on a disk that is mounted then.
        case alreadyMigrated
        /// The old item does not exist, or is an archive of nil.
        case absent
        /// The item could not be migrated.
        case refused(MigrationRefusal)
        /// An earlier run migrated the item, and it has not reappeared in the source. Not checked if the migration or the
        /// source keeps old items.
        case migratedBefore
    }

    /// An item of the migration.
    public struct Item: Sendable, Hashable, Codable {
        /// The key in the source.
        public let key: String

        /// The outcome for the item.
        public let outcome: Outcome
    }

    /// The outcome for each item, with its old key, in the order of the migration.
    public let outcomes: [Item]

    /// The items that could not be migrated, by their old keys. The next run tries them again.
    public var refused: [String: MigrationRefusal] {
        var refused: [String: MigrationRefusal] = [:]
        for item in outcomes {
            if case .refused(let refusal) = item.outcome { refused[item.key] = refusal }
        }
        return refused
    }

    /// The items that could not be migrated. If there are none, the migration is complete. The kind of each finding is
    /// ``StoreFinding/Kind/damaged``, whatever the reason.
    public var findings: [StoreFinding] {
        refused.sorted { $0.key < $1.key }.map { key, refusal in
            StoreFinding(kind: .damaged, location: ItemKey.location(ofKey: key), reason: refusal.description)
        }
    }
}

extension MigrationReport: CustomStringConvertible {
    /// One line for each item. Contains no values, and escapes control characters in keys.
    public var description: String {
        outcomes.map { ShownText.line("\(String(reflecting: $0.key).dropFirst().dropLast()): \($0.outcome)") }
            .joined(separator: "\n")
    }
}

extension MigrationReport.Outcome: CustomStringConvertible {
    /// The outcome in a few words.
    public var description: String {
        switch self {
        case .migrated: "migrated"
        case .alreadyMigrated: "already migrated"
        case .absent: "absent"
        case .refused(let refusal): "refused: \(refusal)"
        case .migratedBefore: "migrated before"
        }
    }
}

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
    /// The data is well-formed, but cannot be read without guessing or loss.
    @_spi(Extensions)
    public static func lossy(_ reason: String) -> MigrationRefusal {
        .ambiguous(reason: "it cannot be read without loss: \(reason)")
    }
}
