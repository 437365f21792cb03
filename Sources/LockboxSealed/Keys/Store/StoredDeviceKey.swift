import LockboxCore
import LockboxSodium

/// A store's device key, read from its sources or from a record of the store.
struct StoredDeviceKey<Storage: RecordStorage>: Sendable {
    let storage: Storage
    /// In the order in which they are tried.
    private let sources: Protected<[DeviceKeySource.Source]>

    /// The keys that may be the store's.
    struct Candidates {
        var keys: [SecretKey] = []
        /// Of ``keys``, those in the store's record.
        var stored: [SecretKey] = []
        /// The revision of the store's record.
        var revision: RecordRevision = .absent
        /// Of the first source that could not be read.
        var error: LockboxError?
    }

    init(storage: Storage, source: DeviceKeySource) {
        self.storage = storage
        sources = Protected(source.sources)
    }

    private var record: RecordName { RecordName(name: "device-key") }

    /// The key's name in error messages.
    var location: String { location(of: sources.withLock { $0[0] }) }

    private func location(of source: DeviceKeySource.Source) -> String {
        if case .given(let name, _) = source { return name }
        return storage.location(of: record)
    }

    /// - Throws: The error of the first source if no source has a key.
    func read() throws -> Candidates {
        var found = Candidates()
        for source in sources.withLock({ $0 }) {
            do {
                switch source {
                case .given(let name, let read): found.keys.append(try DeviceKeySource.key(name, read))
                case .stored:
                    try checkIsKept()
                    guard let (keys, revision) = try readRecord() else {
                        throw LockboxError.missing(record: location(of: source))
                    }
                    found.keys += keys
                    found.stored += keys
                    found.revision = revision
                }
            } catch let error as LockboxError { found.error = found.error ?? error }
        }
        if found.keys.isEmpty { throw found.error ?? LockboxError.missing(record: location) }
        return found
    }

    private func readRecord() throws -> ([SecretKey], RecordRevision)? {
        var result: ([SecretKey], RecordRevision)?
        let length = DeviceKeyRecord.maximumLength
        do {
            _ = try storage.read(record, upTo: length, maximum: length) { contents in
                defer { Sodium.wipe(contents.bytes) }
                let keys = try DeviceKeyRecord.decode(UnsafeRawBufferPointer(contents.bytes))
                result = (keys, contents.revision)
            }
        } catch let error as RecordError {
            throw error.lockboxError(storage.location(of: record))
        }
        return result
    }

    /// - Throws: ``LockboxError/invalidDeviceKey(source:reason:)`` if a device key does not belong in this storage.
    func checkIsKept() throws {
        if storage.isOnThisDevice { return }
        throw LockboxError.invalidDeviceKey(
            source: storage.location(of: record),
            reason:
                "a device key in this storage would not protect the items from those who operate it; keep it in a file or "
                + "a systemd credential"
        )
    }

    // MARK: Writing

    /// Returns the key of a new store. Creates it if it belongs in the store and is missing.
    func readOrCreate(_ lock: inout (any StorageLock)?) throws -> SecretKey {
        if case .given(let name, let read) = sources.withLock({ $0[0] }) {
            return try DeviceKeySource.key(name, read)
        }
        try checkIsKept()
        if let (keys, _) = try readRecord() { return keys[0] }
        var bytes = DeviceKeyRecord.encoded([try .random()])
        defer { Sodium.wipe(&bytes) }
        let outcome = try storage.commit([.put(record, bytes)], expecting: [record: .absent], keeping: &lock)
        if case .unknown(let error) = outcome { throw error }
        // If another process has created a key first, that one is used.
        guard let (keys, _) = try readRecord() else {
            throw LockboxError.missing(record: storage.location(of: record))
        }
        return keys[0]
    }

    /// Replaces the store's record by one with these keys, or removes it if there are none.
    func store(_ keys: [SecretKey], _ lock: inout (any StorageLock)?) throws {
        var bytes = keys.isEmpty ? [] : DeviceKeyRecord.encoded(keys)
        defer { Sodium.wipe(&bytes) }
        let change = keys.isEmpty ? RecordChange.remove(record) : .put(record, bytes)
        let outcome = try storage.commit([change], expecting: [:], keeping: &lock)
        if case .unknown(let error) = outcome { throw error }
    }

    /// For a commit that changes the record together with the keybag, where the storage can do that.
    func changes(to keys: [SecretKey]?) -> [RecordChange] {
        guard storage.limits.isTransactional, let keys else { return [] }
        return [change(to: keys)]
    }

    private func change(to keys: [SecretKey]) -> RecordChange {
        keys.isEmpty ? .remove(record) : .put(record, DeviceKeyRecord.encoded(keys))
    }

    /// From now on the key of another source is tried first.
    func prefer(_ source: DeviceKeySource) { sources.withLock { $0 = source.sources + $0 } }
}
