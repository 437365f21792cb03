import LockboxCore
import LockboxPlatform

/// The lists of items that former keys still open. See ``Manifest``.
final class Manifests: Sendable {
    private let storage: any RecordStorage
    /// Those that were read, by the hash of the first record.
    private let known = Protected<[RecordHash: Manifest]>([:])

    init(_ storage: any RecordStorage) { self.storage = storage }

    /// Throws unless an item of an earlier epoch opens.
    ///
    /// - Parameter contents: The whole record, which is then opened: it may be replaced meanwhile.
    func checkIsListed(_ contents: RecordContents, _ id: RecordID, _ epoch: UInt32, _ keyring: Keyring) throws
    {
        guard let closing = keyring.closing(of: epoch) else { return }
        if try lists(id, RecordHash(hashing: UnsafeRawBufferPointer(contents.bytes)), closing) { return }
        throw keyring.holds(.metadata, epoch: epoch) ? RecordError.notListed : .unknownKey
    }

    func lists(_ id: RecordID, _ hash: RecordHash, _ closing: Closing) throws -> Bool {
        guard let first = closing.manifest else { return false }
        return try manifest(first)?.lists(id, hash) ?? false
    }

    /// Returns nil if one of its records is missing, damaged or unreadable: then no item is listed.
    ///
    /// - Parameters:
    ///   - first: The hash of its first record.
    ///   - strictly: Whether one that cannot be read for now is an error.
    func manifest(_ first: RecordHash, strictly: Bool = false) throws -> Manifest? {
        if let manifest = known.withLock({ $0[first] }) { return manifest }
        var manifest = Manifest()
        var next: RecordHash? = first
        while let record = next {
            let name = Manifest.name(record)
            do {
                let found = try storage.withContents(of: name, atLeast: .max, maximum: Manifest.maximumLength)
                {
                    try manifest.read(UnsafeRawBufferPointer($0.bytes), record)
                }
                guard let found else { return nil }
                next = found
            } catch let error as LockboxError
                where [.corrupt, .unsafePermissions].contains(error.code)
                || error.code == .unreadable && !strictly
            {
                return nil
            } catch is RecordError { return nil }
        }
        known.withLock { known in
            if known.count >= Self.maximumManifests { known = [:] }
            known[first] = manifest
        }
        return manifest
    }

    /// That of the keybag, and one from before that a locked program knows.
    private static let maximumManifests = 4

    /// Writes a manifest that the next keybag names. Returns its records, which that keybag expects to be there: another process may
    /// remove what no keybag names. The caller holds the keybag's lock.
    func store(_ manifest: Manifest) throws -> StoredManifest {
        var stored = StoredManifest()
        for (hash, bytes) in manifest.encoded(maximumLength: storage.limits.maximumRecordLength) {
            let name = Manifest.name(hash)
            var revision = RecordRevision.absent
            // Without locks, another process may remove it before a keybag names it.
            while revision == .absent {
                if case .unknown(let error) = try storage.commit([.put(name, bytes)], expecting: [:]) {
                    throw error
                }
                revision = try storage.revision(of: name, maximum: Manifest.maximumLength)
            }
            stored.revisions[name] = revision
            stored.first = hash
        }
        return stored
    }

    struct StoredManifest {
        /// If nil, it lists nothing.
        var first: RecordHash?
        var revisions: [RecordName: RecordRevision] = [:]
    }

    /// Removes the records that a keybag does not name. The caller holds the keybag's lock: no other process writes one meanwhile.
    func removeAll(besides opened: OpenedKeybag) throws {
        let needed = try opened.keybag.closing.manifest.map { try manifest($0)?.records ?? [$0] } ?? []
        var names: [String] = []
        try storage.forEachName(in: Manifest.namespace, waitingForCommits: false) { names.append($0) }
        for name in names where !needed.contains(where: { $0.name == name }) {
            let record = RecordName(namespace: Manifest.namespace, name: name)
            let expected = opened.keyring.version.expected
            if case .conflict = try storage.commit([.remove(record)], expecting: expected) { return }
        }
    }
}
