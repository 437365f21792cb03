import LockboxCore

/// What a run does with an item.
enum MigrationStep {
    /// Nothing. The next run looks at the item again.
    case none(MigrationReport.Outcome)
    /// Nothing: the source has been looked at, and the item is where it belongs.
    case inPlace
    /// Replaces the old item with the new one, under the same key. If the source is another store with the
    /// same item, removes it there.
    case replace(old: StoredItem, new: StoredItem, source: SourceItem?)
    /// Writes the new item, unless an earlier run has, and removes the old one.
    case move(old: SourceItem, new: StoredItem, isWritten: Bool)

    var outcome: MigrationReport.Outcome {
        switch self {
        case .none(let outcome): outcome
        case .inPlace: .alreadyMigrated
        case .replace, .move: .migrated
        }
    }

    /// Whether the item is recorded as done afterwards. Not if it is absent, or new while the source has none: it may
    /// appear later, for example on a disk that is mounted later.
    var isToBeRecorded: Bool {
        if case .none = self { false } else { true }
    }

    /// The item to remove from the source in the end.
    var removal: SourceItem? {
        switch self {
        case .none, .inPlace: nil
        case .replace(_, _, let source): source
        case .move(let old, _, _): old
        }
    }

    /// Items whose class is locked first are written first: if they can be written, so can the others.
    var rank: Int {
        switch self {
        case .replace(_, let new, _), .move(_, let new, false): new.attributes.accessibility.rank
        case .none, .inPlace, .move(_, _, true): 0
        }
    }
}
