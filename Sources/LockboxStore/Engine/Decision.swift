import LockboxCore
import LockboxPlatform

/// The items that one call stores or removes, and the revision of every record that the call has looked at, also of those that it
/// leaves alone. A decision stores only in place of what was looked at, so its commit expects all that it was decided for.
struct Decision {
    /// The items to store; those that are nil are removed.
    private(set) var changes: [(record: ItemRecord, item: StoredItem?)] = []
    private(set) var expected: [RecordName: RecordRevision] = [:]

    /// Leaves a record as it is.
    init<Content>(keeping looked: Looked<Content>) { expected[looked.record.name] = looked.revision }

    init<Content>(storing item: StoredItem, inPlaceOf looked: Looked<Content>) {
        self.init(keeping: looked)
        changes = [(looked.record, item)]
    }

    init<Content>(removing looked: Looked<Content>) {
        self.init(keeping: looked)
        changes = [(looked.record, nil)]
    }

    /// Removes a record, whatever is there.
    init(removingUnseen record: ItemRecord) { changes = [(record, nil)] }

    /// Both decisions, in one commit.
    func and(_ other: Decision) -> Decision {
        var both = self
        both.changes += other.changes
        both.expected.merge(other.expected) { $1 }
        return both
    }
}

/// An item that others are changed beside: each commit expects it as it was checked.
struct ItemCondition: Sendable {
    let key: ItemKey
    let check: @Sendable (StoredItem?) throws -> Void
}

/// A record as it was looked at. Its reader makes it.
struct Looked<Content> {
    let record: ItemRecord
    let revision: RecordRevision
    let content: Content

    init(_ record: ItemRecord, _ revision: RecordRevision, _ content: Content) {
        (self.record, self.revision, self.content) = (record, revision, content)
    }

    func map<New>(_ transform: (Content) throws -> New) rethrows -> Looked<New> {
        Looked<New>(record, revision, try transform(content))
    }
}

extension Looked: Sendable where Content: Sendable {}

/// The item in a record before a write.
struct ExistingItem {
    /// Its attributes, or nil if there is no item, or none that counts.
    private(set) var attributes: ItemAttributes?
    /// Set if it exists but cannot be decoded: `.replace` may overwrite it, the other policies fail.
    private(set) var damage: LockboxError?
    private(set) var isExpired = false

    init(_ attributes: ItemAttributes?, at now: Date?) {
        isExpired = attributes?.isExpired(at: now) ?? false
        self.attributes = isExpired ? nil : attributes
    }

    init(damage: LockboxError) { self.damage = damage }

    var exists: Bool { attributes != nil || damage != nil }
}

extension LockboxError {
    /// Whether the record's bytes are wrong, so that a write may replace them.
    var isDamage: Bool { code == .corrupt || code == .authenticationFailed }
}

/// Items' records that are decided about together and changed in one commit, and how.
struct ItemEdit {
    var records: [ItemRecord]
    /// Called again whenever another writer has changed one of the records.
    let decide: ([ItemRecord], Keyring) throws -> Decision

    init(records: [ItemRecord], decide: @escaping ([ItemRecord], Keyring) throws -> Decision) {
        self.records = records
        self.decide = decide
    }

    init(record: ItemRecord, decide: @escaping (ItemRecord, Keyring) throws -> Decision) {
        self.init(records: [record]) { try decide($0[0], $1) }
    }
}

/// The name of an item's record, and the ID that the name encodes.
struct ItemRecord: Sendable {
    let name: RecordName
    let id: RecordID
    /// The record, if it was read together with others, or nil if it has to be read.
    var contents: KnownContents?
    /// Whether a commit follows: one that stores something expects the present keybag.
    var isDecided = false
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

/// A record at some instant.
enum KnownContents: Sendable {
    case absent
    case present(Record)
}
