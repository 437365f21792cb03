import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// The item to store, or nil to remove it, and the revision that the decision is based on. No revision: it
    /// does not matter what is there.
    typealias Change = (item: StoredItem?, expected: RecordRevision?)

    /// Decides what becomes of a record. If it returns nil, nothing is changed.
    typealias Decision = (ItemRecord, Keyring) throws -> Change?

    /// Returns the keys to change an item with. Creates the store if `creating` is true.
    ///
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no store.
    func keyring(of key: ItemKey, creating: Bool) throws -> Keyring {
        guard let keyring = try keys.keyring(creating: creating) else {
            throw LockboxError.itemNotFound(key: key.key)
        }
        return keyring
    }

    /// Commits the changes that `decide` returns, as many at once as the storage allows and 4 MiB of memory hold.
    /// Calls `decide` again whenever another writer has changed one of these records.
    func change(_ records: ArraySlice<ItemRecord>, _ keyring: Keyring, _ decide: Decision) throws {
        var rest = records
        while !rest.isEmpty {
            let limit = storage.limits.maximumChanges
            rest = rest.dropFirst(try commit(rest.prefix(limit), keyring, decide, maximumLength: 4 << 20))
        }
    }

    /// Returns how many records it has gone through: as many as the length allows, and at least one.
    private func commit(
        _ records: ArraySlice<ItemRecord>,
        _ keyring: Keyring,
        _ decide: Decision,
        maximumLength: Int
    ) throws -> Int {
        var (records, maximumLength) = (records, maximumLength)
        var (keyring, lock): (Keyring, (any StorageLock)?) = (keyring, nil)
        defer { lock?.release() }
        while true {
            do {
                let part = try prepare(records, keyring, decide, maximumLength)
                if part.changes.isEmpty { return part.count }
                switch try storage.commit(part.changes, expecting: part.expected, keeping: &lock) {
                case .committed: return part.count
                case .unknown(let error): throw error
                case .conflict:
                    // The lock is for these records.
                    (records, maximumLength) = (records.prefix(part.count), .max)
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

    private typealias Part = (changes: [RecordChange], expected: [RecordName: RecordRevision], count: Int)

    private func prepare(
        _ records: ArraySlice<ItemRecord>,
        _ keyring: Keyring,
        _ decide: Decision,
        _ maximumLength: Int
    ) throws -> Part {
        var part: Part = ([], [:], 0)
        var length = 0
        var (ahead, most): (ArraySlice<ItemRecord>, Int) = ([], 16)
        while part.count < records.count, part.count == 0 || length < maximumLength {
            if ahead.isEmpty { ahead = try readTogether(records.dropFirst(part.count), most: &most) }
            let record = ahead.removeFirst()
            guard let change = try decide(record, keyring) else {
                part.count += 1
                continue
            }
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
}

extension SealedBackend: SynchronizingBackend {
    /// See ``RecordStorage/synchronize(_:)``.
    package func synchronize(prefix: String) throws {
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
