import LockboxCore

// Not nested in the generic class, whose metadata would have to be looked up at every access.

/// The name of an item's record, and the ID that the name encodes.
struct ItemRecord: Sendable {
    let name: RecordName
    let id: RecordID
    /// What was read of it together with other records. Nil if it has to be read.
    var contents: KnownContents?
}
