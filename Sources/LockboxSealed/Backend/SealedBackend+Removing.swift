public import LockboxCore
public import LockboxPlatform

extension SealedBackend {
    /// See ``LockboxBackend/remove(_:)``.
    public func remove(_ key: ItemKey) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        let record = itemRecord(of: key, keyring).name
        let revision = try? storage.revision(of: record, maximum: .max)
        try commit([.remove(record)])
        // Not there, then; unless the whole store has gone.
        if revision == .absent { try keys.checkIsThere() }
    }

    private func commit(_ changes: [RecordChange]) throws {
        switch try storage.commit(changes, expecting: [:], turn: nil) {
        case .committed, .conflict: return
        case .unknown(let error): throw error
        }
    }

    /// See ``LockboxBackend/removeAll(prefix:)``.
    public func removeAll(prefix: String) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        try removeItems(in: namespace(of: prefix, keyring)) { _ in .remove }
    }

    /// See ``LockboxBackend/removeExpired(prefix:now:)``.
    @discardableResult
    public func removeExpired(prefix: String, now: Date) throws -> Int {
        guard let keyring = try keys.keyring(creating: false) else { return 0 }
        return try removeItems(in: namespace(of: prefix, keyring)) { item in
            // What cannot be read is not known to be expired.
            let old = try existing(item, keyring, at: now)
            return old.state == .expired ? .removeIfUnchanged(old.revision) : .keep
        }
    }

    /// Removes every item of a class that was sealed with a key that the store has no more, of whatever prefix.
    func removeUnopenableItems(of accessibility: Accessibility) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            // One may just be being written, under the keys of before.
            try removeItems(in: namespace, waitingForCommits: true) { item in
                guard let seal = try? seal(of: item), seal.accessibility == accessibility else {
                    return .keep
                }
                // Another process may have made a key again, and used it.
                let isOpenable = try keys.currentKeyring().holds(.classKey(accessibility), epoch: seal.epoch)
                return isOpenable ? .keep : .removeIfUnchanged(seal.revision)
            }
        }
    }

    /// Others take turns with this: no commit has more than so many changes.
    private static var removalBatch: Int { 250 }

    @discardableResult
    private func removeItems(
        in namespace: String,
        waitingForCommits: Bool = false,
        _ choose: (ItemRecord) throws -> RemovalChoice
    ) throws -> Int {
        let items = try items(in: namespace, waitingForCommits: waitingForCommits)
        if items.isEmpty {
            try storage.synchronize(namespace)
            try keys.checkIsThere()
        }
        var count = 0
        let length = min(Self.removalBatch, storage.limits.maximumChanges)
        for start in stride(from: 0, to: items.count, by: length) {
            count += try remove(items[start..<min(start + length, items.count)], choose)
        }
        return count
    }

    /// Chooses again when one of the items has been changed meanwhile.
    private func remove(_ items: Slice<ItemRecords>, _ choose: (ItemRecord) throws -> RemovalChoice) throws
        -> Int
    {
        var turn: (any CommitTurn)?
        defer { turn?.release() }
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
            switch try storage.commit(changes, expecting: expected, turn: turn) {
            case .committed: return changes.count
            case .unknown(let error): throw error
            case .conflict(let next): turn = next ?? turn
            }
        }
    }
}

/// What is to become of an item that was looked at.
private enum RemovalChoice {
    case keep, remove
    case removeIfUnchanged(RecordRevision)
}
