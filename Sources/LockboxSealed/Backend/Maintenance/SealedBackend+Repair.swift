public import LockboxCore

extension SealedBackend: RepairableBackend {
    /// Removes an unreadable item by its record. Returns false if it is readable, and stays.
    @discardableResult
    public func remove(record: String) throws -> Bool {
        let record = try itemRecord(record)
        var lock: (any StorageLock)?
        defer { lock?.release() }
        var conflicts = ConflictLimit()
        while true {
            var expected: [RecordName: RecordRevision] = [:]
            switch try look(at: record) {
            case .readable: return false
            case .absent: break
            case .damaged(let revision): expected[record] = revision
            case .unread where lock == nil:
                // It has no revision to expect. So nobody else may commit between the look and the removal.
                lock = try storage.lockIfAny(record.namespace)
                if lock != nil { continue }
            case .unread: break
            }
            switch try storage.commit([.remove(record)], expecting: expected, keeping: &lock) {
            case .committed: return true
            case .unknown(let error): throw error
            case .conflict: try conflicts.check(record, storage)
            }
        }
    }

    /// Sets an unreadable item aside, and returns where it is now. Supported on files.
    @discardableResult
    public func quarantine(record: String) throws -> String {
        guard let storage = storage as? any QuarantiningStorage else {
            throw LockboxError.notSupported(operation: "quarantine")
        }
        let record = try itemRecord(record)
        // Nobody else commits between the look and the quarantine.
        let lock = try storage.lockIfAny(record.namespace)
        defer { lock?.release() }
        if case .readable = try look(at: record) {
            throw LockboxError.conflict(record: storage.location(of: record))
        }
        return try storage.quarantine(record, lock: lock)
    }

    /// Whether a record that was named as unreadable still is: another writer may have replaced it since.
    ///
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if only its value is locked, which may be intact.
    private func look(at record: RecordName) throws -> RepairState {
        guard let id = RecordID(name: record.name) else { return .unread }
        let (item, keyring) = (ItemRecord(name: record, id: id), try keys.currentKeyring())
        var revision: RecordRevision?
        do {
            guard try metadata(item, keyring, { revision = $0.revision }) != nil else { return .absent }
            let isThere = try read(item, keyring, upTo: .max) {
                revision = $0.revision
                _ = try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: nil)
            }
            return isThere ? .readable : .absent
        } catch let error as LockboxError {
            // Rethrows what is not about this record.
            _ = try unreadableItem(item, error)
            return revision.map(RepairState.damaged) ?? .unread
        }
    }

    /// Refuses everything that is not the name of an item of this store, above all the keybag.
    private func itemRecord(_ record: String) throws -> RecordName {
        let keyring = try keys.currentKeyring()
        let parts = record.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, keyring.owns(namespace: parts[0]),
            try RecordID(name: parts[1]) != nil || exists(parts[1], in: parts[0])
        else { throw LockboxError.invalidKey(reason: "no item of this store has that record") }
        return RecordName(namespace: parts[0], name: parts[1])
    }

    private func exists(_ name: String, in namespace: String) throws -> Bool {
        var exists = false
        try storage.forEachName(in: namespace, waitingForCommits: false) { if $0 == name { exists = true } }
        return exists
    }
}

/// What is there of a record that is to be repaired.
private enum RepairState {
    case absent, readable
    case damaged(RecordRevision)
    /// The storage does not read it, for example because others can write to its file. Or it is no item.
    case unread
}

extension RecordName {
    /// See ``UnreadableItem/record``.
    var path: String { namespace.map { "\($0)/\(name)" } ?? name }
}
