import LockboxCore

// Not nested in the generic class: their metadata would have to be looked up at every access.

/// Where an item's record is: its name, and the id that the name stands for.
struct ItemRecord: Sendable {
    let name: RecordName
    let id: RecordID
}

/// A namespace's items, in little memory: there may be a million.
struct ItemRecords: RandomAccessCollection {
    let namespace: String
    var ids: [RecordID] = []

    var startIndex: Int { 0 }
    var endIndex: Int { ids.count }

    subscript(index: Int) -> ItemRecord {
        ItemRecord(name: RecordName(namespace: namespace, name: ids[index].name), id: ids[index])
    }
}
