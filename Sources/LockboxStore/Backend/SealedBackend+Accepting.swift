public import LockboxCore

extension SealedBackend {
    /// Accepts an item that is sealed with former keys, and that was not there, or could not be read, when they were replaced.
    ///
    /// An attacker with the former keys could have made it, so nothing else opens it: look at the key, the class and the date, and at the
    /// value before you use it. The item is sealed with the present keys. Its class is not proven, unless it needs an
    /// unlock: a write that keeps another class has to name it. An item that opens anyway stays as it is.
    ///
    /// - Parameter record: The item's record: ``UnreadableItem/record``.
    /// - Returns: The item's key and attributes.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if no item of this store has that record, or if it is one of Lockbox's own;
    ///   ``LockboxError/missing(record:)`` if it is not there; ``LockboxError/interactionNotAllowed(_:)`` if it is locked; any
    ///   error of reading an item.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func acceptItem(record: String) throws -> (key: ItemKey, attributes: ItemAttributes) {
        let name = try recordName(record)
        guard let id = RecordID(name: name.name) else {
            throw LockboxError.invalidKey(reason: "no item of this store has that record")
        }
        var accepted: StoredItem?
        try writer.change([ItemRecord(name: name, id: id)], with: keyStore.currentKeyring()) {
            record,
            keyring in
            let found = try refusedItem(record, keyring)
            let (item, isRefused) = found.content
            accepted = item
            return isRefused
                ? Decision(storing: item.with(ClassOrigin(.missing)), inPlaceOf: found)
                : Decision(keeping: found)
        }
        guard let accepted else { throw LockboxError.missing(record: storage.subject(of: name)) }
        return (accepted.key, accepted.attributes)
    }

    private func refusedItem(_ record: ItemRecord, _ keyring: Keyring) throws
        -> Looked<(item: StoredItem, isRefused: Bool)>
    {
        let found = try reader.look(at: record, keyring, unlisted: true) { contents, id, keyring in
            let hash = RecordHash(hashing: UnsafeRawBufferPointer(contents.bytes))
            let closing = ItemHeader.beginning(of: contents.bytes).flatMap { keyring.closing(of: $0.epoch) }
            let isListed = try closing.map { try keyStore.manifests.lists(id, hash, $0) } ?? true
            let item = try ItemEnvelope.openItem(contents.bytes, id: id, keyring: keyring, now: nil)
            return (item, isListed)
        }
        guard let (item, isListed) = found.content, let item else {
            throw LockboxError.missing(record: storage.subject(of: record.name))
        }
        if ItemKey.isReserved(prefix: item.key.prefix) {
            throw LockboxError.invalidKey(
                reason: "the record is one of Lockbox's own, which cannot be accepted; remove it"
            )
        }
        guard reader.namespace(of: item.key.prefix, keyring) == record.name.namespace else {
            throw LockboxError.authenticationFailed(record: storage.subject(of: record.name))
        }
        return found.map { _ in (item, !isListed) }
    }
}
