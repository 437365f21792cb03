public import LockboxCore
public import LockboxPlatform

extension SealedBackend {
    /// Removes an item, readable or not.
    public func remove(_ key: ItemKey) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        let record = itemRecord(of: key, keyring).name
        let isAbsent = try isAbsent(record)
        try commit([.remove(record)])
        // An absent record means an absent item, unless the whole store is gone.
        if isAbsent { try keys.checkIsThere() }
    }

    /// A damaged record can be removed. Nothing can where nobody answers, or in another state of the store than before.
    private func isAbsent(_ record: RecordName) throws -> Bool {
        do { return try storage.revision(of: record, maximum: .max) == .absent } catch let error
            as LockboxError
            where !error.isOfWholeStore(notOf: storage.location(of: record))
        { return false }
    }

    func commit(_ changes: [RecordChange]) throws {
        switch try storage.commit(changes, expecting: [:]) {
        case .committed, .conflict: return
        case .unknown(let error): throw error
        }
    }

    /// Removes every item with a prefix.
    public func removeAll(prefix: String) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        try remove(items(in: namespace(of: prefix, keyring))) { _ in .remove }
    }

    /// Removes the expired items with a prefix, and returns their number.
    @discardableResult
    public func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        guard let keyring = try keys.keyring(creating: false) else { return 0 }
        var passed: [String: UnreadableItem] = [:]
        let count = try remove(items(in: namespace(of: prefix, keyring))) { item in
            do {
                let old = try existing(item, keyring, at: now)
                if let damage = old.damage { throw damage }
                return old.isExpired ? .removeIfUnchanged(old.revision) : .keep
            } catch let error as LockboxError {
                let item = try unreadableItem(item, error)
                passed[item.record] = item
                return .keep
            }
        }
        for item in passed.values.sorted(by: { $0.record < $1.record }) { try unreadable(item) }
        return count
    }

    /// Removes every item of a class, with any prefix, whose key is no longer in the keybag. What cannot be listed stays:
    /// nothing opens it, and the rotation that follows names it.
    func removeUnopenableItems(of accessibility: Accessibility) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            // A commit in progress may still use the old keys.
            let items = try skippingIfUnusable(namespace, { _ in }) {
                try self.items(in: namespace, waitingForCommits: true)
            }
            guard let items else { continue }
            try remove(items) { item in
                guard let seal = try? seal(of: item), seal.accessibility == accessibility else {
                    return .keep
                }
                // Another process may have created a key of this class again, and used it.
                let isOpenable = try keys.currentKeyring().holds(.classKey(accessibility), epoch: seal.epoch)
                return isOpenable ? .keep : .removeIfUnchanged(seal.revision)
            }
        }
    }

    /// Removes in batches, so that other writers get the lock in between.
    private static var removalBatch: Int { 250 }

    @discardableResult
    private func remove(_ items: ItemRecords, _ choose: (ItemRecord) throws -> RemovalChoice) throws -> Int {
        if items.isEmpty {
            try storage.synchronize(items.namespace)
            try keys.checkIsThere()
        }
        var count = 0
        let length = min(Self.removalBatch, storage.limits.maximumChanges)
        for start in stride(from: 0, to: items.count, by: length) {
            count += try remove(items[start..<min(start + length, items.count)], choose)
        }
        return count
    }

    /// Chooses again if one of the items has been changed meanwhile.
    private func remove(_ items: Slice<ItemRecords>, _ choose: (ItemRecord) throws -> RemovalChoice) throws
        -> Int
    {
        var lock: (any StorageLock)?
        defer { lock?.release() }
        var conflicts = ConflictLimit()
        while true {
            var changes: [RecordChange] = []
            var expected: [RecordName: RecordRevision] = [:]
            for item in items {
                switch try choose(item) {
                case .keep: continue
                case .remove: break
                case .removeIfUnchanged(let revision): expected[item.name] = revision
                }
                changes.append(.remove(item.name))
            }
            if changes.isEmpty { return 0 }
            switch try storage.commit(changes, expecting: expected, keeping: &lock) {
            case .committed: return changes.count
            case .unknown(let error): throw error
            case .conflict: try conflicts.check(changes[0].record, storage)
            }
        }
    }
}

/// What to do with an item.
private enum RemovalChoice {
    case keep, remove
    case removeIfUnchanged(RecordRevision)
}
