import LockboxCore
import LockboxPlatform

/// A store's device key, read from its sources or from a record of the store.
struct StoredDeviceKey: Sendable {
    let storage: any RecordStorage
    /// In the order in which they are tried.
    private let sources: Protected<[DeviceKeySource.Source]>

    /// The keys that may be the store's.
    struct Candidates {
        var keys: [SecretKey] = []
        /// Those of ``keys`` that are in the store's record.
        var stored: [SecretKey] = []
        /// Those of ``keys`` that are in its copy. Empty unless that was read too.
        var copied: [SecretKey] = []
        /// The revision of the store's record.
        var revision: RecordRevision = .absent
        /// The error of the first source that could not be read.
        var error: LockboxError?

        func isOnlyCopied(_ key: SecretKey) -> Bool {
            copied.contains { $0.isEqual(to: key) } && !stored.contains { $0.isEqual(to: key) }
        }
    }

    init(storage: any RecordStorage, source: DeviceKeySource) {
        self.storage = storage
        sources = Protected(source.sources)
    }

    private var record: RecordName { .deviceKey }

    /// Whether it may be in the store's record.
    var isStored: Bool {
        sources.withLock { $0.contains { if case .stored = $0 { true } else { false } } }
    }

    /// The key's name in error messages.
    var location: String {
        if case .given(let name, _) = sources.withLock({ $0[0] }) { return name }
        return storage.location(of: record)
    }

    /// - Parameter withCopy: Whether to read the copy of the store's record too.
    /// - Throws: The error of the first source if no source has a key.
    func read(withCopy: Bool = false) throws -> Candidates {
        var found = Candidates()
        for source in sources.withLock({ $0 }) {
            do {
                switch source {
                case .given(let name, let read): found.keys.append(try DeviceKeySource.key(name, read))
                case .stored:
                    try checkIsKept()
                    let (keys, revision): ([SecretKey], RecordRevision)
                    do {
                        guard let stored = try readRecord(record) else {
                            throw LockboxError.missing(record: storage.subject(of: record))
                        }
                        (keys, revision) = stored
                    } catch let error as LockboxError {
                        if withCopy, error.isOfDamagedKeys { found.copied += copiedKeys() }
                        throw error
                    }
                    if withCopy { found.copied += copiedKeys() }
                    found.keys += keys
                    found.stored += keys
                    found.revision = revision
                }
            } catch let error as LockboxError { found.error = found.error ?? error }
        }
        found.keys += found.copied
        if found.keys.isEmpty { throw found.error ?? LockboxError.missing(record: .other(location)) }
        return found
    }

    private func copiedKeys() -> [SecretKey] { (try? readRecord(.deviceKey.copy))?.keys ?? [] }

    private func readRecord(_ record: RecordName) throws -> (keys: [SecretKey], revision: RecordRevision)? {
        let length = DeviceKeyRecord.maximumLength
        do {
            return try storage.withContents(of: record, atLeast: length, maximum: length) { contents in
                defer { Sodium.wipe(contents.bytes) }
                let keys = try DeviceKeyRecord.decode(UnsafeRawBufferPointer(contents.bytes))
                return (keys, contents.revision)
            }
        } catch let error as RecordError {
            throw error.lockboxError(storage.subject(of: record))
        }
    }

    /// - Throws: ``LockboxError/invalidDeviceKey(source:reason:)`` if a device key does not belong in this storage.
    func checkIsKept() throws {
        if storage.limits.isOnThisDevice { return }
        throw LockboxError.invalidDeviceKey(
            source: storage.location(of: record),
            reason:
                "a device key in this storage would not protect the items from those who operate it; keep it in a file or "
                + "a systemd credential"
        )
    }

    // MARK: Writing

    /// The key of a store that is to be made, and how its keybag is committed.
    struct New {
        let key: SecretKey
        var changes: [RecordChange] = []
        var expecting: [RecordName: RecordRevision] = [:]
    }

    /// Returns the key of a new store, or nil if another process makes it. If it is kept in the store, it is a new one: others may
    /// have put the one there that is found.
    func make(_ lock: KeybagLock) throws -> New? {
        if case .given(let name, let read) = sources.withLock({ $0[0] }) {
            return New(key: try DeviceKeySource.key(name, read))
        }
        try checkIsKept()
        let key = try SecretKey.random()
        if storage.limits.isTransactional { return New(key: key, changes: changes(to: [key])) }
        // Another one may be that of a store whose keybag has yet to be put back.
        for record in [record, record.copy]
        where try storage.revision(of: record, maximum: DeviceKeyRecord.maximumLength) != .absent {
            _ = try lock.quarantine(record)
        }
        let expecting = try store([key], expecting: [.keybag: .absent, record: .absent], lock)
        return expecting.map { New(key: key, expecting: $0) }
    }

    /// Replaces the store's record by one with these keys, or removes it if there are none.
    ///
    /// - Returns: Its new revision, or nil if another process has changed it, or one of the expected records.
    func store(
        _ keys: [SecretKey],
        expecting: [RecordName: RecordRevision],
        _ lock: KeybagLock
    ) throws -> [RecordName: RecordRevision]? {
        var bytes = keys.isEmpty ? [] : DeviceKeyRecord.encoded(keys)
        defer { Sodium.wipe(&bytes) }
        let change = keys.isEmpty ? RecordChange.remove(record) : .put(record, bytes)
        switch try lock.commit([change], expecting: expecting) {
        case .committed: break
        case .conflict: return nil
        case .unknown(let error): throw error
        }
        let found = try readRecord(record)
        let isOurs = (found?.0 ?? []).elementsEqual(keys) { $0.isEqual(to: $1) }
        return isOurs ? [record: found?.1 ?? .absent] : nil
    }

    /// For a commit that changes the record together with the keybag, where the storage can do that.
    func changes(to keys: [SecretKey]?) -> [RecordChange] {
        guard storage.limits.isTransactional, let keys else { return [] }
        return [keys.isEmpty ? .remove(record) : .put(record, DeviceKeyRecord.encoded(keys))]
    }

    /// From now on the key is read from there alone: others may know an earlier one.
    func use(_ source: DeviceKeySource) { sources.withLock { $0 = source.sources } }
}

/// The source of a store's device key.
///
/// If the key does not belong to the store, calls throw ``LockboxError/deviceKeyMismatch(source:)`` and change nothing. The
/// key is never derived from a machine ID, host name or hardware, which may change and lock the owner out.
public struct DeviceKeySource: Sendable {
    /// The minimum length of a device key, in bytes.
    static let minimumLength = 32

    enum Source: Sendable {
        case stored
        case given(name: String, @Sendable () throws -> [UInt8])
    }

    /// In the order in which they are tried.
    let sources: [Source]

    private init(_ sources: [Source]) { self.sources = sources }

    /// 32 random bytes in the store's file `device-key`, created together with the store: one that is found in the folder then is
    /// not used. Because the key is
    /// stored next to the data, it protects no better than file permissions do. A storage that
    /// other machines share refuses it.
    public static let stored = DeviceKeySource([.stored])

    /// Asks the app for the key, such as one kept in a hardware module or fetched at start.
    ///
    /// - Parameters:
    ///   - name: The source's name in errors. Not a secret.
    ///   - read: Returns at least 32 secret bytes, always the same ones for one store. It is
    ///     called every time the keybag is read, on the thread that needs it. Errors that it throws are
    ///     rethrown.
    public static func closure(
        name: String = "given by the app",
        _ read: @escaping @Sendable () throws -> [UInt8]
    ) -> DeviceKeySource {
        DeviceKeySource([.given(name: name, read)])
    }

    /// Reads the key from a file outside the store, such as on another disk or in memory. All of its 32 to
    /// 4,096 bytes are the key.
    ///
    /// - Parameter path: The file, which is read every time the keybag is. Symbolic links are followed. If it
    ///   cannot be opened, the call that needs the key throws
    ///   ``LockboxError/storageFailure(operation:path:errno:explanation:)``; if its length is wrong,
    ///   ``LockboxError/invalidDeviceKey(source:reason:)``; if others can read or change it,
    ///   ``LockboxError/unsafePermissions(path:reason:)``, as with ``PasscodeSource/file(_:)``.
    public static func file(_ path: String) -> DeviceKeySource {
        closure(name: path) { try SecretReader.file(path, maximum: 4096) }
    }

    /// Reads the key from a systemd credential: the file with the given name in `$CREDENTIALS_DIRECTORY`, 32 to
    /// 4,096 bytes long. systemd can seal credentials with the machine's TPM.
    ///
    /// - Parameter name: The credential's name in the unit.
    public static func credential(_ name: String = "lockbox-device-key") -> DeviceKeySource {
        closure(name: "credential \(name)") { try SecretReader.credential(name, maximum: 4096) }
    }

    /// Tries several sources and uses the first whose key opens the store. Use it while a device key is being replaced: see
    /// `rotateKeys(newDeviceKey:)`.
    ///
    /// - Parameter sources: The sources, the new one first: a new store is created with the first. A source that fails is
    ///   passed over if another one has the key.
    public static func anyOf(_ sources: [DeviceKeySource]) -> DeviceKeySource {
        let sources = sources.flatMap(\.sources)
        if !sources.isEmpty { return DeviceKeySource(sources) }
        return .closure(name: "anyOf([])") {
            throw LockboxError.invalidDeviceKey(source: "anyOf([])", reason: "no source is given")
        }
    }

    /// Returns the key of the first source, or nil if it is in the store.
    func given() throws -> SecretKey? {
        guard case .given(let name, let read) = sources.first else { return nil }
        return try Self.key(name, read)
    }

    /// Returns the BLAKE2b-256 hash of a given key, so that every byte of a longer key counts.
    static func key(_ name: String, _ read: () throws -> [UInt8]) throws -> SecretKey {
        var bytes: [UInt8]
        do { bytes = try read() } catch LockboxError.invalidPasscode(let reason) {
            throw LockboxError.invalidDeviceKey(source: name, reason: reason)
        }
        defer { Sodium.wipe(&bytes) }
        guard bytes.count >= minimumLength else {
            throw LockboxError.invalidDeviceKey(
                source: name,
                reason: "it has \(bytes.count) bytes; at least \(minimumLength) are required"
            )
        }
        return try SecretKey { output in
            bytes.withUnsafeBytes { Sodium.hash($0, into: output) }
        }
    }
}

extension DeviceKeySource: Undescribed {}
