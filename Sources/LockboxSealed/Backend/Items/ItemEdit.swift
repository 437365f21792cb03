import LockboxCore
import LockboxPlatform

/// An item's record that is to be changed, and how.
struct ItemEdit {
    var record: ItemRecord
    let decision: Decision

    /// What becomes of the record.
    enum Decision {
        case write(ItemChanges, to: ItemKey, policy: WritePolicy)
        /// Whatever is there.
        case remove
        /// An item that can be read.
        case removeReadable(now: Date)
        /// What the closure returns; if that is nil, nothing is changed.
        case custom((ItemRecord, Keyring) throws -> Change?)
    }

    /// The item to store, or nil to remove it, and the revision that the decision is based on. No revision: it
    /// does not matter what is there.
    typealias Change = (item: StoredItem?, expected: RecordRevision?)

    /// Whether the decision needs the old item's attributes, and not its value.
    var needsMetadata: Bool {
        if case .write(let changes, _, _) = decision { changes.value != nil } else { false }
    }
}
