import LockboxCore

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
