public import LockboxCore
public import LockboxPlatform

extension SealedBackend {
    /// Creates an item, or changes the parts of an existing one that the changes set. As in the Keychain, a locked
    /// item cannot be changed. With ``WritePolicy/replace``, a damaged one is overwritten.
    public func write(_ changes: ItemChanges, to key: ItemKey, policy: WritePolicy) throws {
        let keyring = try keyring(of: key, creating: changes.createsItem(policy))
        let edit = ItemEdit(
            record: itemRecord(of: key, keyring),
            decision: .write(changes, to: key, policy: policy)
        )
        try change([edit], keyring)
    }

    /// Performs many operations. With ``FileStorage``, up to 1,000 operations or 4 MiB are synchronized together. If
    /// one of these is refused, none of them is performed.
    public func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        let creating = operations.contains { $0.createsItem }
        guard let keyring = try keys.keyring(creating: creating) else {
            return try operations.forEach { try $0.checkIsRemoval() }
        }
        let edits = operations.map { operation in
            let record = itemRecord(of: operation.key, keyring)
            switch operation {
            case .write(let changes, let key, let policy):
                return ItemEdit(record: record, decision: .write(changes, to: key, policy: policy))
            case .remove: return ItemEdit(record: record, decision: .remove)
            case .removeReadable(_, let now):
                return ItemEdit(record: record, decision: .removeReadable(now: now))
            }
        }
        try change(edits, keyring)
    }

    /// Moves an item to another key, in one commit unless both items are too long for that. If the storage is not
    /// transactional, a crash in between leaves the item under both keys, and the call can be repeated.
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try move(key, to: newKey, policy: policy, now: now) { _ in }
    }

    /// - Parameter willMove: is called with the item before each attempt.
    func move(
        _ key: ItemKey,
        to newKey: ItemKey,
        policy: WritePolicy,
        now: Date,
        willMove: (StoredItem?) throws -> Void
    ) throws {
        if key == newKey { return try copy(key, to: newKey, policy: policy, now: now) }
        let keyring = try keyring(of: key, creating: false)
        let (source, target) = (itemRecord(of: key, keyring), itemRecord(of: newKey, keyring))
        var moved: RecordRevision?
        // The new item is decided first, each time anew.
        try change([target, source], keyring) { record, keyring in
            if record.name == source.name {
                // Decided once more by itself: it was changed after the new item had been committed.
                guard let revision = moved else { throw LockboxError.conflict(record: key.location) }
                moved = nil
                return (nil, revision)
            }
            let (item, revision) = try item(source, keyring, at: now)
            try willMove(item)
            guard let item else { throw LockboxError.itemNotFound(key: key.key) }
            moved = revision
            let old = try self.item(target, keyring, at: now)
            // A move that was interrupted is completed.
            if old.item == item.renamed(to: newKey) { return nil }
            try policy.check(key: newKey.key, exists: old.item != nil)
            return (item.renamed(to: newKey), old.revision)
        }
    }

    /// Returns the whole item, or nil if it is absent or has expired, and its record's revision.
    func item(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws
        -> (item: StoredItem?, revision: RecordRevision)
    {
        var (item, revision): (StoredItem?, RecordRevision) = (nil, .absent)
        do {
            let isThere = try read(record, keyring, upTo: .max) {
                revision = $0.revision
                item = try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: now)
            }
            if let item { try check(item.attributes.accessibility, item.key, record) }
            return (item, isThere ? revision : .absent)
        } catch let error as LockboxError where error.code == .interactionNotAllowed {
            let old = try existing(record, keyring, at: now)
            if old.isExpired { return (nil, old.revision) }
            throw error
        }
    }

    /// Atomically creates, replaces or removes an item.
    public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        // Without a store there is no item. The store is created only if there is something to store.
        if try keys.keyring(creating: false) == nil, try change(nil) == nil { return }
        let keyring = try keyring(of: key, creating: true)
        try self.change([itemRecord(of: key, keyring)], keyring) { record, keyring in
            let (old, revision) = try item(record, keyring, at: now)
            return (try change(old), revision)
        }
    }

    /// Reseals items unless they already use the current keys. Returns the number of resealed ones.
    func reseal(_ records: [ItemRecord]) throws -> Int {
        var resealed: Set<RecordName> = []
        try change(records, keys.currentKeyring()) { record, keyring in
            resealed.remove(record.name)
            var (item, epoch, revision): (StoredItem?, UInt32?, RecordRevision) = (nil, nil, .absent)
            _ = try read(record, keyring, upTo: .max) {
                revision = $0.revision
                epoch = ItemHeader.seal($0.bytes)?.1
                item = try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: nil)
            }
            // Checked only after the item has been opened, because a damaged header can name any epoch.
            guard let item, epoch != keyring.epoch else { return nil }
            resealed.insert(record.name)
            return (item, revision)
        }
        return resealed.count
    }

    func existing(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws -> ExistingItem {
        let found = try look(at: record, keyring, at: now)
        guard found.isRefusedUnread else { return found }
        // Its revision, and then once more, as another writer may have replaced it meanwhile.
        let revision = try storage.revision(of: record.name, maximum: .max)
        let again = try look(at: record, keyring, at: now)
        return again.isRefusedUnread ? ExistingItem(again.state, revision) : again
    }

    private func look(at record: ItemRecord, _ keyring: Keyring, at now: Date?) throws -> ExistingItem {
        var revision = RecordRevision.absent
        do {
            guard let old = try metadata(record, keyring, { revision = $0.revision }) else {
                return ExistingItem(.absent, .absent)
            }
            if old.attributes.isExpired(at: now) { return ExistingItem(.expired, revision) }
            return ExistingItem(.present(old.attributes), revision)
        } catch let error as LockboxError where error.code == .corrupt || error.code == .authenticationFailed
        {
            return ExistingItem(.damaged(error), revision)
        }
    }
}
