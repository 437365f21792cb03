public import LockboxCore

extension SealedBackend: RepairableBackend {
    /// See ``RepairableBackend/remove(record:)``.
    public func remove(record: String) throws { try commit([.remove(itemRecord(record))]) }

    /// See ``RepairableBackend/quarantine(record:)``. Supported on files.
    @discardableResult
    public func quarantine(record: String) throws -> String {
        guard let storage = storage as? any QuarantiningStorage else {
            throw LockboxError.notSupported(operation: "quarantine")
        }
        return try storage.quarantine(itemRecord(record))
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

extension RecordName {
    /// See ``UnreadableItem/record``.
    var path: String { namespace.map { "\($0)/\(name)" } ?? name }
}
