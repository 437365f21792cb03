import LockboxCore

// Not nested in the generic class, whose metadata would have to be looked up at every access.

/// The name of an item's record, and the ID that the name encodes.
struct ItemRecord: Sendable {
    let name: RecordName
    let id: RecordID
}

/// A namespace's items. Compact, because there may be a million.
struct ItemRecords: RandomAccessCollection {
    let namespace: String
    var ids: [RecordID] = []

    var startIndex: Int { 0 }
    var endIndex: Int { ids.count }

    subscript(index: Int) -> ItemRecord {
        ItemRecord(name: RecordName(namespace: namespace, name: ids[index].name), id: ids[index])
    }
}
