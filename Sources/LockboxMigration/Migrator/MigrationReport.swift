public import LockboxCore

/// What ``Lockbox/migrate(_:dryRun:progress:)-method`` did, or would do.
public struct MigrationReport: StoreReport {
    /// What became of an item.
    public enum Outcome: Sendable, Hashable {
        /// It is stored in the new form, and gone from where it was unless that was to stay.
        case migrated
        /// There is an item in the new form, and none in the old.
        case alreadyNew
        /// There is none, or an archive of nothing.
        case absent
        /// It was left as it was.
        case refused(MigrationRefusal)
        /// An earlier run was done with it. It was not looked at.
        case doneBefore
    }

    /// The migration's name.
    public let name: String?

    /// The items' old keys, in the order of the migration, each with what became of it.
    public let outcomes: [(key: String, outcome: Outcome)]

    /// Whether nothing was written.
    public let isDryRun: Bool

    /// The items that were left as they were, by their old keys. The next run tries them again, as it does those that were
    /// absent.
    public var refused: [String: MigrationRefusal] {
        var refused: [String: MigrationRefusal] = [:]
        for case (let key, .refused(let refusal)) in outcomes { refused[key] = refusal }
        return refused
    }

    /// The items that were left as they were. A migration without any is complete: the next run has nothing to do.
    public var findings: [StoreFinding] {
        refused.sorted { $0.key < $1.key }.map { key, refusal in
            let location = "the item for the key \(String(reflecting: key))"
            return StoreFinding(kind: .damaged, location: location, reason: refusal.description)
        }
    }

    /// What became of the item with this old key; nil if the migration has none of it.
    ///
    /// - Parameter key: The key in the source.
    public subscript(key: String) -> Outcome? { outcomes.first { $0.key == key }?.outcome }
}

extension MigrationReport: Equatable {
    /// Whether both say the same of the same items in the same order.
    ///
    /// - Parameters:
    ///   - left: A report.
    ///   - right: Another report.
    public static func == (left: MigrationReport, right: MigrationReport) -> Bool {
        left.name == right.name && left.isDryRun == right.isDryRun
            && left.outcomes.elementsEqual(right.outcomes) { $0 == $1 }
    }
}

extension MigrationReport: CustomStringConvertible {
    /// A line for each item, without any value; control characters of a key as in a Swift literal.
    public var description: String {
        outcomes.map { key, outcome in "\(String(reflecting: key).dropFirst().dropLast()): \(outcome)" }
            .joined(separator: "\n")
    }
}

extension MigrationReport.Outcome: CustomStringConvertible {
    /// In a few words.
    public var description: String {
        switch self {
        case .migrated: "migrated"
        case .alreadyNew: "already new"
        case .absent: "absent"
        case .refused(let refusal): "refused: \(refusal)"
        case .doneBefore: "done before"
        }
    }
}
