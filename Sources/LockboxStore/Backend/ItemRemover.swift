import LockboxCore
import LockboxPlatform

/// Removes items, many at a time, beside others that write.
struct ItemRemover: Sendable {
    let reader: ItemReader

    private var keys: KeyStore { reader.keys }
    private var storage: any RecordStorage { reader.storage }

    /// Removes an item, readable or not.
    func remove(_ key: ItemKey) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        let record = reader.itemRecord(of: key, keyring).name
        let isAbsent = try isAbsent(record)
        if case .unknown(let error) = try storage.commit([.remove(record)], expecting: [:]) { throw error }
        // An absent record means an absent item, unless the whole store is gone.
        if isAbsent { try keys.checkIsThere() }
    }

    /// A damaged record can be removed. Nothing can if the storage does not answer, or the store is in another state than before.
    private func isAbsent(_ record: RecordName) throws -> Bool {
        do { return try storage.revision(of: record, maximum: .max) == .absent } catch let error
            as LockboxError
            where !error.isOfWholeStore
        { return false }
    }

    // MARK: All items of a prefix

    func removeAll(prefix: String) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        let namespace = reader.namespace(of: prefix, keyring)
        if try reader.items(in: namespace).isEmpty {
            try storage.asFiles?.synchronize(namespace)
            return try keys.checkIsThere()
        }
        // Each record is removed once: what is there later is another item.
        var removed: Set<RecordID> = []
        _ = try removeListed(in: namespace, besides: &removed, under: nil)
        // Now the items that were moved meanwhile.
        var conflicts = ConflictLimit()
        while true {
            let lock = try storage.lockIfSupported([namespace])
            defer { lock?.release() }
            guard let left = try removeListed(in: namespace, besides: &removed, under: lock) else { return }
            try conflicts.check(left, storage)
        }
    }

    /// - Returns: A record that may be left, under its name or another one. Under a lock, no item is moved.
    private func removeListed(
        in namespace: String,
        besides removed: inout Set<RecordID>,
        under lock: (any StorageLock)?
    ) throws -> RecordName? {
        var listed: [(item: ItemRecord, revision: RecordRevision?)] = []
        let hasLocks = !storage.limits.isTransactional
        try reader.forEachRecord(in: namespace) { item in
            if removed.contains(item.id) { return }
            listed.append((ItemRecord(name: item.name, id: item.id), hasLocks ? nil : revision(of: item)))
        }
        var left = lock == nil ? listed.first?.item.name : nil
        let length = min(Self.removalBatch, storage.limits.maximumChanges)
        for start in stride(from: 0, to: listed.count, by: length) {
            let batch = listed[start..<min(start + length, listed.count)]
            let expected = batch.compactMap { item, revision in revision.map { (item.name, $0) } }
            let changes = batch.map { RecordChange.remove($0.item.name) }
            switch try storage.commit(changes, expecting: Dictionary(expected) { $1 }, under: lock) {
            case .committed: removed.formUnion(batch.map(\.item.id))
            case .unknown(let error): throw error
            case .conflict: left = changes[0].record
            }
        }
        return left
    }

    /// Returns nil if the record cannot be read. Then no item in it can be moved.
    private func revision(of item: ItemRecord) -> RecordRevision? {
        if case .present(let record) = item.contents { return record.revision }
        return try? storage.revision(of: item.name, maximum: .max)
    }

    // MARK: Items that are chosen

    func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws -> Int {
        guard let keyring = try keys.keyring(creating: false) else { return 0 }
        var passed: [String: UnreadableItem] = [:]
        let count = try removeInBatches(reader.items(in: reader.namespace(of: prefix, keyring))) { item in
            do {
                let old = try reader.existingItem(item, keyring, at: now)
                if let damage = old.content.damage { throw damage }
                return old.content.isExpired ? Decision(removing: old) : nil
            } catch let error as LockboxError {
                let item = try reader.unreadableItem(item, error: error)
                passed[item.record] = item
                return nil
            }
        }
        for item in passed.values.sorted(by: { $0.record < $1.record }) { try unreadable(item) }
        return count
    }

    /// Removes every item of a class, with any prefix, whose key is no longer in the keybag. An item that cannot be listed stays:
    /// nothing opens it, and the rotation that follows names it.
    func removeUnopenableItems(of accessibility: Accessibility) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            // A commit in progress may still use the old keys.
            let items = try reader.skippingIfUnusable(namespace, unreadable: { _ in }) {
                try reader.items(in: namespace, waitingForCommits: true)
            }
            guard let items else { continue }
            try removeInBatches(items) { item in
                guard let found = try? reader.header(of: item), found.content.accessibility == accessibility
                else { return nil }
                // Another process may have created a key of this class again, and used it.
                let isOpenable = try keys.currentKeyring().holds(
                    .classKey(accessibility),
                    epoch: found.content.epoch
                )
                return isOpenable ? nil : Decision(removing: found)
            }
        }
    }

    /// Removes in batches, so that other writers get the lock in between.
    private static var removalBatch: Int { 250 }

    @discardableResult
    private func removeInBatches(
        _ items: ItemRecords,
        _ choose: (ItemRecord) throws -> Decision?
    ) throws -> Int {
        if items.isEmpty {
            try storage.asFiles?.synchronize(items.namespace)
            try keys.checkIsThere()
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
        _ choose: (ItemRecord) throws -> Decision?
    ) throws -> Int {
        var attempts = CommitAttempts(storage)
        defer { attempts.release() }
        while true {
            var changes: [RecordChange] = []
            var expected: [RecordName: RecordRevision] = [:]
            for item in items {
                guard let decision = try choose(item) else { continue }
                expected.merge(decision.expected) { $1 }
                changes += decision.changes.map { .remove($0.record.name) }
            }
            if changes.isEmpty { return 0 }
            if try attempts.commit(changes, expecting: expected) { return changes.count }
        }
    }
}
