import LockboxCore
import LockboxPlatform

/// Reading many records in few calls of the storage.
extension SealedBackend {
    /// Calls a closure with each item's record of a namespace, with its contents if a transactional storage gives them.
    func forEachRecord(
        in namespace: String,
        waitingForCommits: Bool = false,
        _ body: (ItemRecord) throws -> Void
    ) throws {
        // Otherwise the names alone, which need less memory, are followed by one read for each.
        guard storage.limits.isTransactional else {
            return try items(in: namespace, waitingForCommits: waitingForCommits).forEach(body)
        }
        try storage.forEachPage(
            of: namespace,
            maximum: ItemEnvelope.maximumLength,
            waitingForCommits: waitingForCommits
        ) { page in
            for (name, record) in page {
                // Files that are not items are left out.
                guard let id = RecordID(name: name) else { continue }
                let name = RecordName(namespace: namespace, name: name)
                try body(ItemRecord(name: name, id: id, contents: record.map(KnownContents.present)))
            }
        }
    }

    /// Returns the first of these edits with what their records hold, if the storage reads several as of one instant;
    /// otherwise all without. If one cannot be read, none has contents: what is wrong shows when it is read by itself.
    ///
    /// - Parameter most: How many to read. Receives how many of this size 4 MiB of memory hold.
    func readTogether(_ edits: ArraySlice<ItemEdit>, most: inout Int) throws -> ArraySlice<ItemEdit> {
        guard storage.limits.isTransactional, edits.count > 1 else { return edits }
        let edits = edits.prefix(most)
        let found: [RecordName: Record]
        do {
            found = try storage.read(edits.map(\.record.name), maximum: ItemEnvelope.maximumLength)
        } catch let error as LockboxError where error.code == .corrupt {
            return edits
        }
        let length = found.values.reduce(0) { $0 + $1.bytes.count } / max(1, found.count)
        most = max(1, (4 << 20) / max(1, length))
        return ArraySlice(
            edits.map { edit in
                var edit = edit
                edit.record.contents = found[edit.record.name].map(KnownContents.present) ?? .absent
                return edit
            }
        )
    }

    /// Reads as much of a record as its metadata takes. Returns nil if it is damaged: what is wrong shows when it is read again.
    func beginning(of record: RecordName) throws -> KnownContents? {
        var contents = KnownContents.absent
        // Most metadata is in the first bytes that are read in any case.
        for limit in [0, ItemEnvelope.maximumMetadataEnd] {
            var isCut = false
            do {
                _ = try storage.read(record, upTo: limit, maximum: ItemEnvelope.maximumLength) {
                    let revision = $0.revision
                    isCut = !ItemHeader.containsMetadata($0.bytes)
                    contents = .present(Record(bytes: Array($0.bytes), revision: revision))
                }
            } catch let error as LockboxError where error.code == .corrupt {
                return nil
            }
            if !isCut { break }
        }
        return contents
    }

    /// Reads a record and the keybag as of one instant, if other machines may change both. So revoked keys, and a store that
    /// was put back, are noticed at the next read, which takes no more calls of the storage.
    ///
    /// - Parameters:
    ///   - record: Receives its contents.
    ///   - keyring: Receives the current keys.
    /// - Returns: Whether it has read both. If false, nothing was changed.
    func readBesideKeybag(_ record: inout ItemRecord, _ keyring: inout Keyring) throws -> Bool {
        guard !storage.isOnThisDevice, storage.limits.isTransactional else { return false }
        let keybag = KeyStore<Storage>.keybagRecord
        let found: [RecordName: Record]
        do {
            found = try storage.read([keybag, record.name], maximum: ItemEnvelope.maximumLength)
        } catch let error as LockboxError where error.code == .corrupt {
            return false
        }
        record.contents = found[record.name].map(KnownContents.present) ?? .absent
        let isPresent = found[keybag]?.revision == keyring.revision
        if !isPresent { keyring = try keys.currentKeyring() }
        return true
    }

    /// Reads one record, unless its contents are known. Returns false if it does not exist.
    func contents(
        of record: ItemRecord,
        upTo limit: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool {
        switch record.contents {
        case .absent: return false
        case .present(let known):
            var bytes = known.bytes
            try bytes.withUnsafeMutableBytes {
                try body(RecordContents(bytes: $0, revision: known.revision))
            }
            return true
        case nil:
            return try storage.read(record.name, upTo: limit, maximum: ItemEnvelope.maximumLength, body)
        }
    }
}
