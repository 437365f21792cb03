@_spi(Extensions) import LockboxCore
import LockboxPlatform

/// Changes items: decides, seals and commits, and decides again if another writer was faster.
struct ItemWriter: Sendable {
    let reader: ItemReader
    /// Holds for every change.
    var condition: ItemCondition?

    private var keys: KeyStore { reader.keys }
    private var storage: any RecordStorage { reader.storage }

    // MARK: Calls

    func write(_ changes: ItemChanges, to key: ItemKey) throws {
        let keyring = try keyring(orNotFound: key, creating: changes.createsItem)
        try commit([edit(changes, to: key, keyring)], with: keyring)
    }

    /// Returns the keys to change an item with. Creates the store if `creating` is true.
    ///
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if there is no store.
    private func keyring(orNotFound key: ItemKey, creating: Bool) throws -> Keyring {
        guard let keyring = try keys.keyring(creating: creating) else {
            throw LockboxError.itemNotFound(key: key.key)
        }
        return keyring
    }

    private func edit(_ changes: ItemChanges, to key: ItemKey, _ keyring: Keyring) -> ItemEdit {
        ItemEdit(record: reader.itemRecord(of: key, keyring)) { try decision(changes, to: key, in: $0, $1) }
    }

    /// Decides a change of an item's parts.
    private func decision(
        _ changes: ItemChanges,
        to key: ItemKey,
        in record: ItemRecord,
        _ keyring: Keyring
    ) throws -> Decision {
        guard let value = changes.value else {
            // Sealed again, because the boxes of an item are bound to each other.
            let old = try reader.openItem(record, keyring, at: changes.expiryTime)
            return Decision(storing: try changes.item(after: old.content, for: key), inPlaceOf: old)
        }
        let old = try reader.existingItem(record, keyring, at: changes.modified)
        try changes.options.policy.check(key: key.key, exists: old.content.exists)
        if let damage = old.content.damage, changes.options.policy == .updateOnly { throw damage }
        try checkIsOpen(old.content, keyring)
        // A value that is equal keeps the claim. One that cannot be read is replaced.
        if old.content.attributes?.claim != nil,
            let whole = try? reader.openItem(record, keyring, at: changes.modified)
        {
            return Decision(storing: try changes.item(after: whole.content, for: key), inPlaceOf: whole)
        }
        let attributes = try changes.attributes(after: old.content.attributes, value: value)
        return Decision(storing: StoredItem(key: key, value: value, checked: attributes), inPlaceOf: old)
    }

    private func checkIsOpen(_ old: ExistingItem, _ keyring: Keyring) throws {
        guard let accessibility = old.attributes?.accessibility, !keyring.isOpen(accessibility) else {
            return
        }
        throw LockboxError.interactionNotAllowed(accessibility)
    }

    func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        let creating = operations.contains { $0.createsItem }
        guard let keyring = try keys.keyring(creating: creating) else {
            return try operations.forEach { try $0.checkIsRemoval() }
        }
        let edits = operations.map { operation in
            let record = reader.itemRecord(of: operation.key, keyring)
            switch operation {
            case .write(let changes, let key): return edit(changes, to: key, keyring)
            case .remove: return ItemEdit(record: record) { record, _ in Decision(removingUnseen: record) }
            case .removeReadable(_, let now):
                return ItemEdit(record: record) { record, keyring in
                    let found = try reader.openItem(record, keyring, at: now)
                    // An absent record means an absent item, unless the whole store is gone.
                    if found.revision == .absent { try keys.checkIsThere() }
                    return Decision(removing: found)
                }
            }
        }
        try commit(edits, with: keyring)
    }

    /// Atomically creates, replaces or removes an item.
    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        // Without a store there is no item. The store is created only if there is something to store.
        if try keys.keyring(creating: false) == nil, try change(nil) == nil { return }
        let keyring = try keyring(orNotFound: key, creating: true)
        try self.change([reader.itemRecord(of: key, keyring)], with: keyring) { record, keyring in
            let old = try reader.openItem(record, keyring, at: now)
            guard let item = try change(old.content) else { return Decision(removing: old) }
            return Decision(storing: item, inPlaceOf: old)
        }
    }

    /// Stores an item under another key.
    ///
    /// - Parameters:
    ///   - isMove: Whether it leaves the old one. Otherwise it must be there unchanged when the copy is committed.
    ///   - willPut: Called with the item before each attempt.
    func put(
        _ key: ItemKey,
        under newKey: ItemKey,
        policy: WritePolicy,
        now: Date,
        isMove: Bool,
        willPut: @escaping (StoredItem?) throws -> Void = { _ in }
    ) throws {
        let keyring = try keyring(orNotFound: key, creating: false)
        let records = [key, newKey].map { reader.itemRecord(of: $0, keyring) }
        let edit = ItemEdit(records: records) { records, keyring in
            let source = try reader.openItem(records[0], keyring, at: now)
            try willPut(source.content)
            guard let new = source.content?.renamed(to: newKey) else {
                throw LockboxError.itemNotFound(key: key.key)
            }
            if key == newKey { return Decision(keeping: source) }
            let old = try reader.openItem(records[1], keyring, at: now)
            // A move that was interrupted is completed. What it has written may not be durable, so it is written again.
            if old.content != new { try policy.check(key: newKey.key, exists: old.content != nil) }
            let kept = isMove ? Decision(removing: source) : Decision(keeping: source)
            return try kept.and(Decision(storing: new.keepingClaim(of: old.content), inPlaceOf: old))
        }
        try commit([edit], with: keyring)
    }

    /// Removes an item unless it has been written since it was looked at. One that is gone counts as removed.
    func remove(_ found: Looked<StoredItem>) throws -> Bool {
        var attempts = CommitAttempts(storage)
        defer { attempts.release() }
        let (name, decision) = (found.record.name, Decision(removing: found))
        if try attempts.commit([.remove(name)], expecting: decision.expected) { return true }
        return try storage.revision(of: name, maximum: .max) == .absent
    }

    /// Reseals items unless they already use the current keys. Returns the number of resealed ones.
    func reseal(_ records: [ItemRecord], with keyring: Keyring) throws -> Int {
        var resealed: Set<RecordName> = []
        try change(records, with: keyring) { record, keyring in
            resealed.remove(record.name)
            let found = try reader.look(at: record, keyring) {
                let epoch = ItemHeader.beginning(of: $0.bytes)?.epoch
                return (try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: nil), epoch)
            }
            // Checked only after the item has been opened, because a damaged header can name any epoch.
            guard let (item, epoch) = found.content, let item, epoch != keyring.epoch else {
                return Decision(keeping: found)
            }
            resealed.insert(record.name)
            return Decision(storing: item, inPlaceOf: found)
        }
        return resealed.count
    }

    // MARK: The loop

    /// Commits the edits in order, as many at once as the storage allows and 4 MiB of memory hold. Decides again whenever
    /// another writer has changed one of the records.
    func commit(_ edits: [ItemEdit], with keyring: Keyring) throws {
        var (rest, keyring) = (edits[...], keyring)
        var attempts = CommitAttempts(storage)
        defer { attempts.release() }
        let limits = (count: storage.limits.maximumChanges, length: 4 << 20)
        var next = limits
        while !rest.isEmpty {
            do {
                keyring = try keys.newest(keyring)
                let part = try prepare(rest.prefix(next.count), with: keyring, maximumLength: next.length)
                if try part.changes.isEmpty || attempts.commit(part.changes, expecting: part.expected) {
                    rest = rest.dropFirst(part.count)
                    attempts.release()
                    next = limits
                } else {
                    // Only these again: the locks that are held now are theirs.
                    next = (part.count, .max)
                    keyring = try keys.currentKeyring()
                }
            } catch let error as LockboxError { keyring = try newer(than: keyring, after: error) }
        }
    }

    /// Returns other keys if another process may have set or removed a passcode since the keybag was read.
    private func newer(than keyring: Keyring, after error: LockboxError) throws -> Keyring {
        let codes: [LockboxError.Code] = [.interactionNotAllowed, .classNotProven, .passcodeNotSet]
        guard codes.contains(error.code) else { throw error }
        let current = try keys.currentKeyring()
        if current === keyring { throw error }
        return current
    }

    /// Commits what a closure decides. It is called again whenever another writer has changed one of the records.
    func change(
        _ records: some Sequence<ItemRecord>,
        with keyring: Keyring,
        _ decide: (ItemRecord, Keyring) throws -> Decision
    ) throws {
        try withoutActuallyEscaping(decide) { decide in
            try commit(records.map { ItemEdit(record: $0, decide: decide) }, with: keyring)
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
            if ahead.isEmpty { ahead = try reader.readTogether(edits.dropFirst(part.count), most: &most) }
            let edit = ahead.removeFirst()
            let (changes, expected) = try decided(edit, with: keyring)
            length += changes.reduce(0) { $0 + $1.length }
            // The storage's limit is a strict one. This edit is decided again, for the next commit.
            if length > storage.limits.maximumCommitLength, part.count > 0 { break }
            part.changes += changes
            part.expected.merge(expected) { $1 }
            part.count += 1
        }
        if let condition, !part.changes.isEmpty {
            let item = try reader.openItem(reader.itemRecord(of: condition.key, keyring), keyring, at: nil)
            try condition.check(item.content)
            part.expected.merge(Decision(keeping: item).expected) { $1 }
        }
        return part
    }

    /// Seals what an edit stores. An edit that changes nothing expects nothing.
    private func decided(_ edit: ItemEdit, with keyring: Keyring) throws
        -> (changes: [RecordChange], expected: [RecordName: RecordRevision])
    {
        var records = edit.records
        for index in records.indices { records[index].isDecided = true }
        let decision = try edit.decide(records, keyring)
        if decision.changes.isEmpty { return ([], [:]) }
        var expected = decision.expected
        let changes = try decision.changes.map { record, item -> RecordChange in
            guard let item else { return .remove(record.name) }
            expected.merge(keyring.version.expected) { $1 }
            return .put(record.name, try seal(item, into: record, with: keyring))
        }
        return (changes, expected)
    }

    // MARK: Sealing

    /// - Throws: ``LockboxError/valueTooLarge(size:limit:)`` if the storage cannot hold the record.
    func seal(_ item: StoredItem, into record: ItemRecord, with keyring: Keyring) throws -> [UInt8] {
        try reader.checkIsAllowed(item.attributes.accessibility, for: item.key, in: record)
        try checkStaysHere(item)
        let bytes = try envelope(of: item, id: record.id, keyring: keyring)
        if bytes.count > storage.limits.maximumRecordLength {
            throw LockboxError.valueTooLarge(size: item.value.data.count, limit: maximumValueSize)
        }
        return bytes
    }

    private func envelope(of item: StoredItem, id: RecordID, keyring: Keyring) throws(LockboxError) -> [UInt8]
    {
        let new = item.attributes.accessibility
        do { return try ItemEnvelope.seal(item, id: id, keyring: keyring) } catch .locked(let accessibility) {
            throw .interactionNotAllowed(accessibility)
        } catch RecordError.unknownKey where new == .whenPasscodeSetThisDeviceOnly {
            throw .passcodeNotSet
        } catch {
            throw error.lockboxError("the key of the class \(new)")
        }
    }

    /// Lockbox's own records are exempt: they have such a class only to stay out of backups.
    private func checkStaysHere(_ item: StoredItem) throws {
        let accessibility = item.attributes.accessibility
        if storage.limits.isOnThisDevice || !accessibility.isThisDeviceOnly
            || ItemKey.isReserved(prefix: item.key.prefix)
        {
            return
        }
        throw LockboxError.notSupported(
            operation: "keeping an item of the class \(accessibility) in a storage that other devices share"
        )
    }

    var maximumValueSize: Int {
        ItemEnvelope.maximumValueSize(inRecordOf: storage.limits.maximumRecordLength)
    }
}
