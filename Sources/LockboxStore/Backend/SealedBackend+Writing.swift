public import LockboxCore
public import LockboxPlatform

extension SealedBackend {
    /// Creates an item, or changes the parts of an existing one that the changes set. A locked item cannot
    /// be changed, as in the Keychain. With ``WritePolicy/replace``, a damaged one is overwritten.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func write(_ changes: ItemChanges, to key: ItemKey) throws {
        let keyring = try keyring(orNotFound: key, creating: changes.createsItem)
        try commitEdits([edit(changes, to: key, keyring)], with: keyring)
    }

    /// Performs many operations. In files, up to 1,000 operations or 4 MiB are synchronized together. If
    /// one of these is refused, none of them is performed.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        let creating = operations.contains { $0.createsItem }
        guard let keyring = try keyStore.keyring(creating: creating) else {
            return try operations.forEach { try $0.checkIsRemoval() }
        }
        let edits = operations.map { operation in
            let record = itemRecord(of: operation.key, keyring)
            switch operation {
            case .write(let changes, let key): return edit(changes, to: key, keyring)
            case .remove: return ItemEdit(record: record) { _, _ in .replace(nil, with: nil) }
            case .removeReadable(_, let now):
                return ItemEdit(record: record) { [self] in try decideRemoval($0, $1, at: now) }
            }
        }
        try commitEdits(edits, with: keyring)
    }

    /// Moves an item to another key, in one commit. If the storage is not transactional, a crash in between leaves the item under
    /// both keys, and the call can be repeated.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try put(key, under: newKey, policy: policy, now: now) { .replace($0, with: nil) }
    }

    /// Copies an item to another key, if it is still there and unchanged when the copy is committed.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try put(key, under: newKey, policy: policy, now: now) { .keep($0) }
    }

    /// - Parameters:
    ///   - willPut: Called with the item before each attempt.
    ///   - source: What becomes of the item under the old key, whose revision it receives.
    func put(
        _ key: ItemKey,
        under newKey: ItemKey,
        policy: WritePolicy,
        now: Date,
        willPut: @escaping (StoredItem?) throws -> Void = { _ in },
        source: @escaping (RecordRevision) -> ItemEdit.Change
    ) throws {
        let keyring = try keyring(orNotFound: key, creating: false)
        let records = [key, newKey].map { itemRecord(of: $0, keyring) }
        if key == newKey {
            if try item(for: key, now: now) == nil { throw LockboxError.itemNotFound(key: key.key) }
            return
        }
        let edit = ItemEdit(records: records) { [self] records, keyring in
            let (item, revision) = try openItem(records[0], keyring, at: now)
            try willPut(item)
            guard let new = item?.renamed(to: newKey) else { throw LockboxError.itemNotFound(key: key.key) }
            let old = try openItem(records[1], keyring, at: now)
            // A move that was interrupted is completed. What it has written may not be durable, so it is written again.
            if old.item != new { try policy.check(key: newKey.key, exists: old.item != nil) }
            return [source(revision), .replace(old.revision, with: new)]
        }
        try commitEdits([edit], with: keyring)
    }

    /// Returns the whole item, or nil if it is absent or has expired, and its record's revision.
    func openItem(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws
        -> (item: StoredItem?, revision: RecordRevision)
    {
        do {
            let found = try withRecord(record, keyring, atLeast: .max) {
                let revision = $0.revision  // of the bytes before they are opened in place
                return (try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: now), revision)
            }
            guard let (item, revision) = found else { return (nil, .absent) }
            if let item { try checkIsAllowed(item.attributes.accessibility, for: item.key, in: record) }
            return (item, revision)
        } catch let error as LockboxError where error.code == .interactionNotAllowed {
            let old = try existingItem(record, keyring, at: now)
            if old.isExpired { return (nil, old.revision) }
            throw error
        }
    }

    /// Atomically creates, replaces or removes an item.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        // Without a store there is no item. The store is created only if there is something to store.
        if try keyStore.keyring(creating: false) == nil, try change(nil) == nil { return }
        let keyring = try keyring(orNotFound: key, creating: true)
        try changeItems([itemRecord(of: key, keyring)], with: keyring) { record, keyring in
            let (old, revision) = try openItem(record, keyring, at: now)
            return .replace(revision, with: try change(old))
        }
    }

    /// Reseals items unless they already use the current keys. Returns the number of resealed ones.
    func resealTogether(_ records: [ItemRecord], with keyring: Keyring) throws -> Int {
        var resealed: Set<RecordName> = []
        try changeItems(records, with: keyring) { record, keyring in
            resealed.remove(record.name)
            let found = try withRecord(record, keyring, atLeast: .max) {
                let (revision, epoch) = ($0.revision, ItemHeader.beginning(of: $0.bytes)?.epoch)
                return (try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: nil), epoch, revision)
            }
            guard let (old, epoch, revision) = found else { return .keep(.absent) }
            // Checked only after the item has been opened, because a damaged header can name any epoch.
            guard let item = old, epoch != keyring.epoch else { return .keep(revision) }
            resealed.insert(record.name)
            return .replace(revision, with: item)
        }
        return resealed.count
    }

    func existingItem(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws -> ExistingItem {
        let found = try existingIfRead(record, keyring, at: now)
        guard found.isRefusedUnread else { return found }
        // Its revision, and then once more, as another writer may have replaced it meanwhile.
        let revision = try storage.revision(of: record.name, maximum: .max)
        var again = try existingIfRead(record, keyring, at: now)
        if again.isRefusedUnread { again.revision = revision }
        return again
    }

    private func existingIfRead(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws
        -> ExistingItem
    {
        var revision = RecordRevision.absent
        do {
            guard let old = try metadata(record, keyring, whenRead: { revision = $0.revision }) else {
                return ExistingItem(revision: .absent)
            }
            let isExpired = old.attributes.isExpired(at: now)
            let attributes = isExpired ? nil : old.attributes
            return ExistingItem(attributes: attributes, isExpired: isExpired, revision: revision)
        } catch let error as LockboxError where error.code == .corrupt || error.code == .authenticationFailed
        {
            return ExistingItem(damage: error, revision: revision)
        }
    }
}

extension SealedBackend {
    /// Removes an item, readable or not.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func remove(_ key: ItemKey) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        let record = itemRecord(of: key, keyring).name
        let isAbsent = try isAbsent(record)
        try commit([.remove(record)])
        // An absent record means an absent item, unless the whole store is gone.
        if isAbsent { try keyStore.checkIsThere() }
    }

    /// A damaged record can be removed. Nothing can if the storage does not answer, or the store is in another state than before.
    private func isAbsent(_ record: RecordName) throws -> Bool {
        do { return try storage.revision(of: record, maximum: .max) == .absent } catch let error
            as LockboxError
            where !error.isOfWholeStore
        { return false }
    }

    func commit(_ changes: [RecordChange]) throws {
        switch try storage.commit(changes, expecting: [:]) {
        case .committed, .conflict: return
        case .unknown(let error): throw error
        }
    }

    /// Removes every item with a prefix, also one that another writer moves to another key of the prefix meanwhile.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func removeAll(prefix: String) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        let namespace = namespace(of: prefix, keyring)
        if try items(in: namespace).isEmpty {
            try storage.synchronize(namespace)
            return try keyStore.checkIsThere()
        }
        // Each record is removed once: what is there later is another item.
        var removed: Set<RecordID> = []
        var lock: (any StorageLock)?
        defer { lock?.release() }
        _ = try removeListed(in: namespace, besides: &removed, under: &lock)
        // Now the items that were moved meanwhile. With a lock, no item is moved any more.
        lock = try storage.lock(namespace)
        var conflicts = ConflictLimit()
        while let found = try removeListed(in: namespace, besides: &removed, under: &lock), lock == nil {
            try conflicts.check(found, storage)
        }
    }

    /// - Returns: One of the records that were found. They may have been moved meanwhile.
    private func removeListed(
        in namespace: String,
        besides removed: inout Set<RecordID>,
        under lock: inout (any StorageLock)?
    ) throws -> RecordName? {
        var listed: [(item: ItemRecord, revision: RecordRevision?)] = []
        let hasLocks = !storage.limits.isTransactional
        try forEachRecord(in: namespace) { item in
            if removed.contains(item.id) { return }
            listed.append((ItemRecord(name: item.name, id: item.id), hasLocks ? nil : revision(of: item)))
        }
        let length = min(Self.removalBatch, storage.limits.maximumChanges)
        for start in stride(from: 0, to: listed.count, by: length) {
            let batch = listed[start..<min(start + length, listed.count)]
            let expected = batch.compactMap { item, revision in revision.map { (item.name, $0) } }
            let changes = batch.map { RecordChange.remove($0.item.name) }
            switch try storage.commit(changes, expecting: Dictionary(expected) { $1 }, lock: &lock) {
            case .committed: removed.formUnion(batch.map(\.item.id))
            case .unknown(let error): throw error
            case .conflict: break
            }
        }
        return listed.first?.item.name
    }

    /// Returns nil if the record cannot be read. Then no item in it can be moved.
    private func revision(of item: ItemRecord) -> RecordRevision? {
        if case .present(let record) = item.contents { return record.revision }
        return try? storage.revision(of: item.name, maximum: .max)
    }

    /// Removes the expired items with a prefix, and returns their number.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        guard let keyring = try keyStore.keyring(creating: false) else { return 0 }
        var passed: [String: UnreadableItem] = [:]
        let count = try removeInBatches(items(in: namespace(of: prefix, keyring))) { item in
            do {
                let old = try existingItem(item, keyring, at: now)
                if let damage = old.damage { throw damage }
                return old.isExpired ? .remove(old.revision) : .keep
            } catch let error as LockboxError {
                let item = try unreadableItem(item, error: error)
                passed[item.record] = item
                return .keep
            }
        }
        for item in passed.values.sorted(by: { $0.record < $1.record }) { try unreadable(item) }
        return count
    }

    /// Removes every item of a class, with any prefix, whose key is no longer in the keybag. An item that cannot be listed stays:
    /// nothing opens it, and the rotation that follows names it.
    func removeUnopenableItems(of accessibility: Accessibility) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            // A commit in progress may still use the old keys.
            let items = try skippingIfUnusable(namespace, unreadable: { _ in }) {
                try self.items(in: namespace, waitingForCommits: true)
            }
            guard let items else { continue }
            try removeInBatches(items) { item in
                guard let (header, revision) = try? header(of: item), header.accessibility == accessibility
                else { return .keep }
                // Another process may have created a key of this class again, and used it.
                let isOpenable = try keyStore.currentKeyring().holds(
                    .classKey(accessibility),
                    epoch: header.epoch
                )
                return isOpenable ? .keep : .remove(revision)
            }
        }
    }

    private enum Removal {
        case keep
        /// The revision that it is decided for, or nil if it does not matter what is there.
        case remove(RecordRevision?)
    }

    /// Removes in batches, so that other writers get the lock in between.
    private static var removalBatch: Int { 250 }

    @discardableResult
    private func removeInBatches(
        _ items: ItemRecords,
        _ choose: (ItemRecord) throws -> Removal
    ) throws -> Int {
        if items.isEmpty {
            try storage.synchronize(items.namespace)
            try keyStore.checkIsThere()
        }
        var count = 0
        let length = min(Self.removalBatch, storage.limits.maximumChanges)
        for start in stride(from: 0, to: items.count, by: length) {
            count += try removeBatch(items[start..<min(start + length, items.count)], choose)
        }
        return count
    }

    /// Chooses again if one of the items has been changed meanwhile.
    private func removeBatch(
        _ items: Slice<ItemRecords>,
        _ choose: (ItemRecord) throws -> Removal
    ) throws -> Int {
        var lock: (any StorageLock)?
        defer { lock?.release() }
        var conflicts = ConflictLimit()
        while true {
            var changes: [RecordChange] = []
            var expected: [RecordName: RecordRevision] = [:]
            for item in items {
                guard case .remove(let revision) = try choose(item) else { continue }
                expected[item.name] = revision
                changes.append(.remove(item.name))
            }
            if changes.isEmpty { return 0 }
            switch try storage.commit(changes, expecting: expected, lock: &lock) {
            case .committed: return changes.count
            case .unknown(let error): throw error
            case .conflict: try conflicts.check(changes[0].record, storage)
            }
        }
    }
}

/// The state of a record before a write.
struct ExistingItem {
    /// The item's attributes, or nil if there is no item, or none that counts.
    var attributes: ItemAttributes?
    /// Set if it exists but cannot be decoded: `.replace` may overwrite it, the other policies fail.
    var damage: LockboxError?
    var isExpired = false
    var revision: RecordRevision

    var exists: Bool { attributes != nil || damage != nil }

    /// The storage refused the record before its bytes were read, usually because it is too long. Its revision is not known.
    var isRefusedUnread: Bool { damage != nil && revision == .absent }
}
