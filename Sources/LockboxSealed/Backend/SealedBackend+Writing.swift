public import LockboxCore
public import LockboxPlatform

extension SealedBackend {
    /// See ``LockboxBackend/write(_:to:policy:)``. As in the Keychain, a locked item cannot be changed. With
    /// ``WritePolicy/replace``, a damaged one is overwritten.
    public func write(_ changes: ItemChanges, to key: ItemKey, policy: WritePolicy) throws {
        guard let value = changes.value else { return try changeAttributes(changes, key, policy) }
        try change(key, creating: policy != .updateOnly) { record, keyring in
            let old = try existing(record, keyring, at: changes.modified)
            try policy.check(key: key.key, exists: old.exists)
            if let damage = old.damage, policy == .updateOnly { throw damage }
            try checkIsOpen(old, keyring)
            let attributes = try changes.attributes(after: old.attributes, value, policy)
            return (StoredItem(key: key, value: value, checked: attributes), old.revision)
        }
    }

    /// The value has to be sealed again, because the boxes of an item are bound to each other.
    private func changeAttributes(_ changes: ItemChanges, _ key: ItemKey, _ policy: WritePolicy) throws {
        try change(key, creating: false) { record, keyring in
            let (old, revision) = try item(record, keyring, at: changes.modified)
            return (try changes.item(after: old, key, policy), revision)
        }
    }

    private func checkIsOpen(_ old: ExistingItem, _ keyring: Keyring) throws {
        guard let accessibility = old.attributes?.accessibility, !keyring.isOpen(accessibility) else {
            return
        }
        throw LockboxError.interactionNotAllowed(accessibility)
    }

    /// Returns the whole item, or nil if it is absent or has expired, and its record's revision.
    private func item(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws
        -> (item: StoredItem?, revision: RecordRevision)
    {
        var (item, revision): (StoredItem?, RecordRevision) = (nil, .absent)
        do {
            let isThere = try read(record, keyring, upTo: .max) {
                revision = $0.revision
                item = try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: now)
            }
            return (item, isThere ? revision : .absent)
        } catch let error as LockboxError where error.code == .interactionNotAllowed {
            let old = try existing(record, keyring, at: now)
            if old.isExpired { return (nil, old.revision) }
            throw error
        }
    }

    /// Stores the item unchanged, dates included. Replaces an existing item unless that is locked.
    func overwrite(_ item: StoredItem) throws {
        try change(item.key, creating: true) { record, keyring in
            let old = try existing(record, keyring, at: nil)
            try checkIsOpen(old, keyring)
            return (item, old.revision)
        }
    }

    /// Stores the item unchanged, dates included, if there is none or it has expired by `now`, even a locked
    /// one. Returns false if there is another item.
    func add(_ item: StoredItem, now: Date) throws -> Bool {
        var isFree = false
        try change(item.key, creating: true) { record, keyring in
            let old = try existing(record, keyring, at: now)
            isFree = !old.exists
            return isFree ? (item, old.revision) : nil
        }
        return isFree
    }

    /// See ``LockboxBackend/update(_:now:_:)``.
    public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        // Without a store there is no item. The store is created only if there is something to store.
        if try keys.keyring(creating: false) == nil, try change(nil) == nil { return }
        try self.change(key, creating: true) { record, keyring in
            let (old, revision) = try item(record, keyring, at: now)
            return (try change(old), revision)
        }
    }

    /// The item to store, or nil to remove it, and the revision that the decision is based on.
    private typealias Change = (item: StoredItem?, expected: RecordRevision)

    /// Commits the change that `decide` returns. Calls it again whenever another writer has changed the record.
    /// If it returns nil, nothing is changed.
    private func change(
        _ key: ItemKey,
        creating: Bool,
        _ decide: (ItemRecord, Keyring) throws -> Change?
    ) throws {
        guard let keyring = try keys.keyring(creating: creating) else {
            throw LockboxError.itemNotFound(key: key.key)
        }
        try change(itemRecord(of: key, keyring), keyring, decide)
    }

    private func change(
        _ record: ItemRecord,
        _ keyring: Keyring,
        _ decide: (ItemRecord, Keyring) throws -> Change?
    ) throws {
        var (keyring, turn): (Keyring, (any CommitTurn)?) = (keyring, nil)
        defer { turn?.release() }
        while true {
            do {
                guard let change = try decide(record, keyring) else { return }
                let bytes = try change.item.map { try seal($0, record.id, keyring) }
                let outcome = try storage.commit(
                    [bytes.map { .put(record.name, $0) } ?? .remove(record.name)],
                    expecting: [
                        record.name: change.expected, KeyStore<Storage>.keybagRecord: keyring.revision,
                    ],
                    turn: turn
                )
                switch outcome {
                case .committed: return
                case .unknown(let error): throw error
                case .conflict(let next): turn = next ?? turn
                }
                keyring = try keys.currentKeyring()
            } catch let error as LockboxError where error.dependsOnKeys {
                // Another process may have set or removed a passcode since the keybag was read.
                let current = try keys.currentKeyring()
                if current === keyring { throw error }
                keyring = current
            }
        }
    }

    /// Reseals an item unless it already uses the current keys. Returns whether it was resealed.
    func reseal(_ record: ItemRecord) throws -> Bool {
        var isResealed = false
        try change(record, keys.currentKeyring()) { record, keyring in
            var (item, epoch, revision): (StoredItem?, UInt32?, RecordRevision) = (nil, nil, .absent)
            isResealed = try read(record, keyring, upTo: .max) {
                revision = $0.revision
                epoch = ItemHeader.seal($0.bytes)?.1
                item = try ItemEnvelope.openItem(
                    $0.bytes,
                    id: $1,
                    keyring: $2,
                    now: nil
                )
            }
            // Checked only after the item has been opened, because a damaged header can name any epoch.
            if epoch == keyring.epoch { isResealed = false }
            return isResealed ? item.map { ($0, revision) } : nil
        }
        return isResealed
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

extension LockboxError {
    /// Whether the operation could succeed with other keys.
    fileprivate var dependsOnKeys: Bool {
        switch self {
        case .interactionNotAllowed, .passcodeNotSet: true
        default: false
        }
    }
}
