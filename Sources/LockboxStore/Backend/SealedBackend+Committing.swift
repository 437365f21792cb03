import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// Returns the keys to change an item with. Creates the store if `creating` is true.
    ///
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no store.
    func keyring(orNotFound key: ItemKey, creating: Bool) throws -> Keyring {
        guard let keyring = try keyStore.keyring(creating: creating) else {
            throw LockboxError.itemNotFound(key: key.key)
        }
        return keyring
    }

    /// Commits the edits in order, as many at once as the storage allows and 4 MiB of memory hold. Decides again whenever
    /// another writer has changed one of the records.
    func commitEdits(_ edits: [ItemEdit], with keyring: Keyring) throws {
        var (rest, keyring) = (edits[...], keyring)
        var (lock, locked): ((any StorageLock)?, Set<String?>) = (nil, [])
        defer { lock?.release() }
        let limits = (count: storage.limits.maximumChanges, length: 4 << 20)
        var next = limits
        var conflicts = ConflictLimit()
        while !rest.isEmpty {
            do {
                keyring = try keyStore.newest(keyring)
                let part = try prepare(rest.prefix(next.count), with: keyring, maximumLength: next.length)
                // A decision may have changed its mind, and need locks that come before this one.
                let namespaces = part.changes.namespaces(expecting: part.expected)
                if namespaces != locked {
                    lock?.release()
                    (lock, locked) = (nil, namespaces)
                }
                let outcome: CommitOutcome =
                    try part.changes.isEmpty
                    ? .committed : storage.commit(part.changes, expecting: part.expected, lock: &lock)
                switch outcome {
                case .committed:
                    rest = rest.dropFirst(part.count)
                    lock?.release()
                    (lock, next, conflicts) = (nil, limits, ConflictLimit())
                case .unknown(let error): throw error
                case .conflict:
                    try conflicts.check(part.changes[0].record, storage)
                    // The lock is for these records.
                    next = (part.count, .max)
                    keyring = try keyStore.currentKeyring()
                }
            } catch let error as LockboxError
                where [.interactionNotAllowed, .classNotProven, .passcodeNotSet].contains(error.code)
            {
                // Another process may have set or removed a passcode since the keybag was read.
                let current = try keyStore.currentKeyring()
                if current === keyring { throw error }
                keyring = current
            }
        }
    }

    /// Commits what a closure decides. It is called again whenever another writer has changed one of the records.
    func changeItems(
        _ records: some Sequence<ItemRecord>,
        with keyring: Keyring,
        _ decide: (ItemRecord, Keyring) throws -> ItemEdit.Change
    ) throws {
        try withoutActuallyEscaping(decide) { decide in
            try commitEdits(records.map { ItemEdit(record: $0, decide: decide) }, with: keyring)
        }
    }

    private typealias Part = (changes: [RecordChange], expected: [RecordName: RecordRevision], count: Int)

    private func prepare(_ edits: ArraySlice<ItemEdit>, with keyring: Keyring, maximumLength: Int) throws
        -> Part
    {
        var part: Part = ([], [:], 0)
        var length = 0
        var (ahead, most): (ArraySlice<ItemEdit>, Int) = ([], 16)
        while part.count < edits.count, part.count == 0 || length < maximumLength {
            if ahead.isEmpty { ahead = try readTogether(edits.dropFirst(part.count), most: &most) }
            let edit = ahead.removeFirst()
            let (changes, expected) = try decided(edit, with: keyring)
            length += changes.reduce(0) { $0 + $1.length }
            // The storage's limit is a strict one. This edit is decided again, for the next commit.
            if length > storage.limits.maximumCommitLength, part.count > 0 { break }
            part.changes += changes
            part.expected.merge(expected) { $1 }
            part.count += 1
        }
        return part
    }

    /// Returns the changes of an edit, and the revisions that it is decided for, also of the records that it leaves alone. An edit
    /// that changes nothing expects nothing.
    private func decided(_ edit: ItemEdit, with keyring: Keyring) throws
        -> (changes: [RecordChange], expected: [RecordName: RecordRevision])
    {
        var (changes, expected): ([RecordChange], [RecordName: RecordRevision]) = ([], [:])
        var records = edit.records
        for index in records.indices { records[index].isDecided = true }
        for (record, change) in zip(records, try edit.decide(records, keyring)) {
            switch change {
            case .keep(let revision): expected[record.name] = revision
            case .replace(let revision, with: nil):
                changes.append(.remove(record.name))
                expected[record.name] = revision
            case .replace(let revision, with: let item?):
                changes.append(.put(record.name, try seal(item, into: record, with: keyring)))
                expected[record.name] = revision
                expected[KeyStore.keybagRecord] = keyring.revision
            }
        }
        return changes.isEmpty ? ([], [:]) : (changes, expected)
    }

    // MARK: Decisions

    func edit(_ changes: ItemChanges, to key: ItemKey, _ keyring: Keyring) -> ItemEdit {
        ItemEdit(record: itemRecord(of: key, keyring)) { [self] in
            try decideWrite($0, $1, of: changes, to: key)
        }
    }

    private func decideWrite(
        _ record: ItemRecord,
        _ keyring: Keyring,
        of changes: ItemChanges,
        to key: ItemKey
    ) throws -> ItemEdit.Change {
        guard let value = changes.value else {
            // Sealed again, because the boxes of an item are bound to each other.
            let (old, revision) = try openItem(record, keyring, at: changes.expiryTime)
            return .replace(revision, with: try changes.item(after: old, for: key))
        }
        let old = try existingItem(record, keyring, at: changes.modified)
        try changes.options.policy.check(key: key.key, exists: old.exists)
        if let damage = old.damage, changes.options.policy == .updateOnly { throw damage }
        try checkIsOpen(old, keyring)
        // An equal value keeps it. A damaged one is replaced.
        if old.attributes?.refreshClaim != nil,
            let (item, revision) = try? openItem(record, keyring, at: changes.modified)
        {
            return .replace(revision, with: try changes.item(after: item, for: key))
        }
        let attributes = try changes.attributes(after: old.attributes, value: value)
        return .replace(old.revision, with: StoredItem(key: key, value: value, checked: attributes))
    }

    /// Decides the removal of an item that can be read.
    func decideRemoval(_ record: ItemRecord, _ keyring: Keyring, at now: Date) throws
        -> ItemEdit.Change
    {
        let revision = try openItem(record, keyring, at: now).revision
        // An absent record means an absent item, unless the whole store is gone.
        if revision == .absent { try keyStore.checkIsThere() }
        return .replace(revision, with: nil)
    }

    private func checkIsOpen(_ old: ExistingItem, _ keyring: Keyring) throws {
        guard let accessibility = old.attributes?.accessibility, !keyring.isOpen(accessibility) else {
            return
        }
        throw LockboxError.interactionNotAllowed(accessibility)
    }
}

extension SealedBackend {
    /// Makes the items of a prefix that can be read durable.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func synchronize(prefix: String) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        try storage.synchronize(namespace(of: prefix, keyring))
    }
}

/// Reading many records in few calls of the storage.
extension SealedBackend {
    /// Calls a closure with each item's record of a namespace, with its contents if a transactional storage gives them.
    func forEachRecord(
        in namespace: String,
        waitingForCommits: Bool = false,
        _ body: (ItemRecord) throws -> Void
    ) throws {
        // Otherwise the names alone, which need less memory, are followed by one read for each.
        guard storage.limits.isTransactional else {
            return try items(in: namespace, waitingForCommits: waitingForCommits).forEach(body)
        }
        try storage.forEachPage(
            of: namespace,
            maximum: ItemEnvelope.maximumLength,
            waitingForCommits: waitingForCommits
        ) { page in
            for (name, record) in page {
                // Files that are not items are left out.
                guard let id = RecordID(name: name) else { continue }
                let name = RecordName(namespace: namespace, name: name)
                try body(ItemRecord(name: name, id: id, contents: record.map(KnownContents.present)))
            }
        }
    }

    /// Calls a closure with each item's record, also with one that another writer moves between the list and the look at it. An
    /// item that is moved after the look is passed once more, under its new key.
    ///
    /// - Parameter isThere: Returns whether the record was still there.
    func forEachRecordBesideMoves(in namespace: String, _ isThere: (ItemRecord) throws -> Bool) throws {
        var (seen, gone): ([RecordID], Set<RecordID>) = ([], [])
        func look(_ item: ItemRecord) throws {
            seen.append(item.id)
            if try !isThere(item) { gone.insert(item.id) }
        }
        try forEachRecord(in: namespace) { try look($0) }
        var conflicts = ConflictLimit()
        while let id = gone.first {
            try conflicts.check(RecordName(namespace: namespace, name: id.name), storage)
            let found = Set(seen).subtracting(gone)
            (seen, gone) = (Array(found), [])
            for item in try items(in: namespace) where !found.contains(item.id) { try look(item) }
        }
    }

    /// Returns the first of these edits with what their records hold, if the storage reads several as of one instant;
    /// otherwise all without. If one cannot be read, none has contents: what is wrong shows when it is read by itself.
    ///
    /// - Parameter most: How many to read. Receives how many of this size 4 MiB of memory hold.
    func readTogether(_ edits: ArraySlice<ItemEdit>, most: inout Int) throws -> ArraySlice<ItemEdit> {
        guard storage.limits.isTransactional, edits.count > 1 || edits.first?.records.count ?? 0 > 1
        else { return edits }
        let edits = edits.prefix(most)
        guard let found = try readIfWhole(edits.flatMap(\.records).map(\.name)) else { return edits }
        let length = found.values.reduce(0) { $0 + $1.bytes.count } / max(1, found.count)
        most = max(1, (4 << 20) / max(1, length))
        return ArraySlice(
            edits.map { edit in
                var edit = edit
                for (index, record) in edit.records.enumerated() {
                    edit.records[index].contents = found[record.name].map(KnownContents.present) ?? .absent
                }
                return edit
            }
        )
    }

    /// Reads a record and the keybag as of one instant, if other machines may change both. So revoked keys, and a store that
    /// was put back, are noticed at the next read, which takes no more calls of the storage.
    ///
    /// - Parameters:
    ///   - record: Receives its contents.
    ///   - keyring: Receives the current keys.
    /// - Returns: Whether it has read both. If false, nothing was changed.
    func readBesideKeybag(_ record: inout ItemRecord, _ keyring: inout Keyring) throws -> Bool {
        guard !storage.isOnThisDevice, storage.limits.isTransactional else { return false }
        let keybag = KeyStore.keybagRecord
        guard let found = try readIfWhole([keybag, record.name]) else { return false }
        record.contents = found[record.name].map(KnownContents.present) ?? .absent
        let isUnchanged = found[keybag]?.revision == keyring.revision
        if !isUnchanged { keyring = try keyStore.currentKeyring() }
        return true
    }

    /// Returns nil if one of the records is too long.
    private func readIfWhole(_ records: [RecordName]) throws -> [RecordName: Record]? {
        do { return try storage.read(records, maximum: ItemEnvelope.maximumLength) } catch let error
            as LockboxError where error.code == .corrupt
        { return nil }
    }

    /// Reads one record, unless its contents are known. Returns nil if it does not exist.
    func withContents<Result>(
        of record: ItemRecord,
        atLeast minimum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result? {
        switch record.contents {
        case .absent: return nil
        case .present(let known):
            var bytes = known.bytes
            return try bytes.withUnsafeMutableBytes {
                try body(RecordContents(bytes: $0, revision: known.revision))
            }
        case nil:
            return try storage.read(record.name, atLeast: minimum, maximum: ItemEnvelope.maximumLength, body)
        }
    }
}

/// Items' records that are decided about together and changed in one commit, and how.
struct ItemEdit {
    /// All that the decision looks at: one, or two of which at most one is written.
    var records: [ItemRecord]
    /// Returns what becomes of each record. Called again whenever another writer has changed one of them.
    let decide: ([ItemRecord], Keyring) throws -> [Change]

    init(records: [ItemRecord], decide: @escaping ([ItemRecord], Keyring) throws -> [Change]) {
        self.records = records
        self.decide = decide
    }

    init(record: ItemRecord, decide: @escaping (ItemRecord, Keyring) throws -> Change) {
        self.init(records: [record]) { [try decide($0[0], $1)] }
    }

    enum Change {
        /// The record stays as it is. The edit's other changes are decided for this revision of it.
        case keep(RecordRevision)
        /// The revision that the decision is based on, or nil if it does not matter what is there; and the item to store, or
        /// nil to remove it.
        case replace(RecordRevision?, with: StoredItem?)
    }
}

/// The name of an item's record, and the ID that the name encodes.
struct ItemRecord: Sendable {
    let name: RecordName
    let id: RecordID
    /// The record, if it was read together with others, or nil if it has to be read.
    var contents: KnownContents?
    /// Whether a commit that expects the present keybag follows.
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
