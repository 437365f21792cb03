public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// Returns the keys to change an item with. Creates the store if `creating` is true.
    ///
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no store.
    func keyring(of key: ItemKey, creating: Bool) throws -> Keyring {
        guard let keyring = try keys.keyring(creating: creating) else {
            throw LockboxError.itemNotFound(key: key.key)
        }
        return keyring
    }

    /// Commits the edits in order, as many at once as the storage allows and 4 MiB of memory hold. Decides again whenever
    /// another writer has changed one of the records.
    func change(_ edits: [ItemEdit], _ keyring: Keyring) throws {
        var (rest, keyring) = (edits[...], keyring)
        var (lock, locked): ((any StorageLock)?, Set<String?>) = (nil, [])
        defer { lock?.release() }
        let limits = (count: storage.limits.maximumChanges, length: 4 << 20)
        var next = limits
        var conflicts = ConflictLimit()
        while !rest.isEmpty {
            do {
                let part = try prepare(rest.prefix(next.count), keyring, next.length)
                // A decision may have changed its mind, and need locks that come before this one.
                let namespaces = Set(part.changes.map(\.record.namespace))
                if namespaces != locked {
                    lock?.release()
                    (lock, locked) = (nil, namespaces)
                }
                let outcome: CommitOutcome =
                    try part.changes.isEmpty
                    ? .committed : storage.commit(part.changes, expecting: part.expected, keeping: &lock)
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
                    keyring = try keys.currentKeyring()
                }
            } catch let error as LockboxError where error.dependsOnKeys {
                // Another process may have set or removed a passcode since the keybag was read.
                let current = try keys.currentKeyring()
                if current === keyring { throw error }
                keyring = current
            }
        }
    }

    /// Commits what a closure decides. It is called again whenever another writer has changed one of the records.
    func change(
        _ records: some Sequence<ItemRecord>,
        _ keyring: Keyring,
        _ decide: (ItemRecord, Keyring) throws -> ItemEdit.Change?
    ) throws {
        try withoutActuallyEscaping(decide) { decide in
            try change(records.map { ItemEdit(record: $0, decision: .custom(decide)) }, keyring)
        }
    }

    private typealias Part = (changes: [RecordChange], expected: [RecordName: RecordRevision], count: Int)

    private func prepare(_ edits: ArraySlice<ItemEdit>, _ keyring: Keyring, _ maximumLength: Int) throws
        -> Part
    {
        var part: Part = ([], [:], 0)
        var length = 0
        var (ahead, most): (ArraySlice<ItemEdit>, Int) = ([], 16)
        while part.count < edits.count, part.count == 0 || length < maximumLength {
            if ahead.isEmpty { ahead = try readTogether(edits.dropFirst(part.count), most: &most) }
            var edit = ahead.removeFirst()
            if edit.needsMetadata, edit.record.contents == nil {
                edit.record.contents = try beginning(of: edit.record.name)
            }
            guard let change = try decide(edit, keyring) else {
                part.count += 1
                continue
            }
            let record = edit.record
            if let item = change.item {
                let bytes = try seal(item, record, keyring)
                length += bytes.count
                // The storage's limit is a strict one. This record is decided again, for the next commit.
                if length > storage.limits.maximumCommitLength, part.count > 0 { break }
                part.changes.append(.put(record.name, bytes))
                part.expected[KeyStore<Storage>.keybagRecord] = keyring.revision
            } else {
                part.changes.append(.remove(record.name))
            }
            part.expected[record.name] = change.expected
            part.count += 1
        }
        return part
    }

    // MARK: Decisions

    private func decide(_ edit: ItemEdit, _ keyring: Keyring) throws -> ItemEdit.Change? {
        switch edit.decision {
        case .write(let changes, let key, let policy): try write(changes, key, policy, edit.record, keyring)
        case .remove: (nil, nil)
        case .removeReadable(let now): try removeReadable(edit.record, keyring, at: now)
        case .custom(let decide): try decide(edit.record, keyring)
        }
    }

    private func write(
        _ changes: ItemChanges,
        _ key: ItemKey,
        _ policy: WritePolicy,
        _ record: ItemRecord,
        _ keyring: Keyring
    ) throws -> ItemEdit.Change {
        guard let value = changes.value else {
            // Sealed again, because the boxes of an item are bound to each other.
            let (old, revision) = try item(record, keyring, at: changes.expiryTime)
            return (try changes.item(after: old, for: key, policy: policy), revision)
        }
        let old = try existing(record, keyring, at: changes.modified)
        try policy.check(key: key.key, exists: old.exists)
        if let damage = old.damage, policy == .updateOnly { throw damage }
        try checkIsOpen(old, keyring)
        let attributes = try changes.attributes(after: old.attributes, value: value, policy: policy)
        return (StoredItem(key: key, value: value, checked: attributes), old.revision)
    }

    private func removeReadable(_ record: ItemRecord, _ keyring: Keyring, at now: Date) throws
        -> ItemEdit.Change
    {
        let revision = try item(record, keyring, at: now).revision
        // An absent record means an absent item, unless the whole store is gone.
        if revision == .absent { try keys.checkIsThere() }
        return (nil, revision)
    }

    private func checkIsOpen(_ old: ExistingItem, _ keyring: Keyring) throws {
        guard let accessibility = old.attributes?.accessibility, !keyring.isOpen(accessibility) else {
            return
        }
        throw LockboxError.interactionNotAllowed(accessibility)
    }
}

extension SealedBackend: SynchronizingBackend {
    /// Makes the items of a prefix that can be read durable.
    public func synchronize(prefix: String) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        try storage.synchronize(namespace(of: prefix, keyring))
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
