public import LockboxCore
public import LockboxPlatform

/// Seals items and stores them: in files as ``EncryptedFileBackend``, or in another storage.
///
/// The keys are kept in the store's keybag, wrapped with the device key. They are unwrapped once, at the first
/// use, and then stay in memory. For the format of the records, see <doc:OnDiskFormat>.
///
/// Names and attributes are sealed with a key that needs only the device key, so items can be listed and
/// removed while they are locked.
public final class SealedBackend: LockboxBackend {
    /// Stores the records.
    @_spi(Extensions) public var storage: any RecordStorage { keyStore.storage }

    /// The file that would remember the store for this user's programs, if it cannot be written.
    @_spi(Extensions) public var unwritableMemory: String? {
        keyStore.memory.flatMap { $0.isWritable ? nil : $0.path }
    }

    let keyStore: KeyStore
    private let namespaces = Protected<(key: SecretKey?, names: [String: String])>((nil, [:]))

    /// Creates a backend. Reads and writes nothing.
    ///
    /// - Parameters:
    ///   - storage: Stores the records.
    ///   - deviceKey: The source of the device key, which encrypts the keybag. It must always be the same for one
    ///     store, unless `rotateKeys(newDeviceKey:)` replaces it.
    ///   - requirements: The program's requirements for the store.
    @_spi(Extensions)
    public convenience init(
        storage: any RecordStorage,
        deviceKey: DeviceKeySource = .stored,
        requires requirements: StoreRequirements = StoreRequirements()
    ) {
        let memory = StoreMemory.ofUser(of: (storage as? FileStorage)?.directory)
        self.init(KeyStore(storage: storage, deviceKey: deviceKey, requires: requirements, memory: memory))
    }

    /// Creates a backend whose store ends with the process, and is not remembered.
    package convenience init(
        temporary storage: any RecordStorage,
        deviceKey: DeviceKeySource,
        requires requirements: StoreRequirements
    ) {
        self.init(KeyStore(storage: storage, deviceKey: deviceKey, requires: requirements))
    }

    init(_ keyStore: KeyStore) { self.keyStore = keyStore }

    // MARK: Reading

    /// Returns the value of an item, or `nil` if it is absent.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try openRecord(of: key, now: now) {
            try ItemEnvelope.openValue($0.bytes, id: $1, keyring: $2, now: now)
        }
    }

    /// Returns an item with its attributes, or `nil` if it is absent.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        try openRecord(of: key, now: now) {
            try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: now)
        }
    }

    /// Returns the attributes of an item, locked or not, or `nil` if it is absent.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        guard var keyring = try keyStore.keyring(creating: false) else { return nil }
        var record = itemRecord(of: key, keyring)
        let didReadKeybag = try readBesideKeybag(&record, &keyring)
        let metadata = try metadata(record, keyring)
        if metadata == nil, !didReadKeybag { try keyStore.checkIsThere() }
        return metadata.flatMap { $0.attributes.isExpired(at: now) ? nil : $0.attributes }
    }

    /// Returns the attributes of every item with a prefix.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        var found: [ItemKey: ItemAttributes] = [:]
        try forEachItem(prefix: prefix, now: now, unreadable: { throw $0.error }) { found[$0] = $1 }
        return found
    }

    /// Calls a closure with the attributes of every item with a prefix. One that another writer moves meanwhile may come twice,
    /// under its old key and its new one. Needs some 120 MB of memory for a million items.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        var isEmpty = true
        try forEachRecordBesideMoves(in: namespace(of: prefix, keyring)) { item in
            isEmpty = false
            var isUnreadable = false
            let metadata = try readableMetadata(item, keyring, in: prefix) {
                isUnreadable = true
                try unreadable($0)
            }
            guard let metadata else { return isUnreadable }
            if !metadata.attributes.isExpired(at: now) { try body(metadata.key, metadata.attributes) }
            return true
        }
        if isEmpty { try keyStore.checkIsThere() }
    }

    /// Returns every prefix that has items.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func prefixes() throws -> Set<String> { try prefixes { throw $0.error } }

    /// Returns every prefix that has readable items.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String> {
        guard let keyring = try keyStore.keyring(creating: false) else { return [] }
        var prefixes: Set<String> = []
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            guard let prefix = try prefix(of: namespace, keyring, unreadable: unreadable) else { continue }
            if !ItemKey.isReserved(prefix: prefix) { prefixes.insert(prefix) }
        }
        if prefixes.isEmpty { try keyStore.checkIsThere() }
        return prefixes
    }

    /// Returns nil, after it has named them, if none of the namespace's items can be read.
    private func prefix(
        of namespace: String,
        _ keyring: Keyring,
        unreadable: (UnreadableItem) throws -> Void
    ) throws -> String? {
        var passed: [UnreadableItem] = []
        do {
            try skippingIfUnusable(namespace, unreadable: unreadable) {
                try forEachRecordBesideMoves(in: namespace) { item in
                    let count = passed.count
                    let metadata = try readableMetadata(item, keyring) { passed.append($0) }
                    if let metadata { throw FoundPrefix(prefix: metadata.key.prefix) }
                    return passed.count > count
                }
            }
        } catch let found as FoundPrefix { return found.prefix }
        try passed.forEach(unreadable)
        return nil
    }

    // MARK: One record

    /// Opens the record of an item. Returns nil for a locked item that has expired, and so counts as absent.
    private func openRecord<Result>(
        of key: ItemKey,
        now: Date?,
        _ open: (RecordContents, RecordID, Keyring) throws -> Result?
    ) throws -> Result? {
        do {
            guard var keyring = try keyStore.keyring(creating: false) else { return nil }
            var record = itemRecord(of: key, keyring)
            let didReadKeybag = try readBesideKeybag(&record, &keyring)
            let found = try withRecord(record, keyring, atLeast: .max) { contents, id, keyring in
                if let accessibility = ItemHeader.beginning(of: contents.bytes)?.accessibility {
                    try checkIsAllowed(accessibility, for: key, in: record)
                }
                return try open(contents, id, keyring)
            }
            // An absent record means an absent item, unless the whole store is gone.
            if found == nil, !didReadKeybag { try keyStore.checkIsThere() }
            return found ?? nil
        } catch let error as LockboxError where error.code == .interactionNotAllowed {
            if now != nil, try attributes(for: key, now: now) == nil { return nil }
            throw error
        }
    }

    /// Opens a record with `open`. If the keyring lacks the key that the record names, or holds it locked, or if the record is
    /// not authentic with keys that may be outdated, or is of a closed epoch and not listed, tries again with the current keybag.
    /// Returns nil if there is no such record.
    ///
    /// - Parameter unlisted: Whether it may be of a closed epoch and not listed.
    func withRecord<Result>(
        _ record: ItemRecord,
        _ keyring: Keyring,
        atLeast minimum: Int,
        unlisted: Bool = false,
        _ open: (RecordContents, RecordID, Keyring) throws -> Result
    ) throws -> Result? {
        do {
            var isCut = false
            let found = try withContents(of: record, atLeast: minimum) { contents -> Result? in
                let epoch = ItemHeader.beginning(of: contents.bytes)?.epoch
                if let epoch, epoch < keyring.epoch, !unlisted {
                    isCut = minimum < .max
                    if isCut { return nil }
                    if !record.isDecided { try keyStore.checkIsCurrent(keyring) }
                    try keyStore.checkIsListed(contents, record.id, epoch, keyring)
                }
                return try open(contents, record.id, keyring)
            }
            return isCut ? try withRecord(record, keyring, atLeast: .max, open) : found ?? nil
        } catch let error as RecordError where error.isOfKeyring || error == .notAuthentic {
            let current = try keyStore.currentKeyring()
            let isCurrent =
                error.isOfKeyring
                ? current === keyring && record.contents == nil : !current.succeeds(keyring)
            if isCurrent { throw error.lockboxError(storage.subject(of: record.name)) }
            // A record that was read earlier may be sealed with keys that are gone by now.
            return try withRecord(
                ItemRecord(name: record.name, id: record.id, isDecided: record.isDecided),
                current,
                atLeast: minimum,
                unlisted: unlisted,
                open
            )
        } catch let error as RecordError {
            throw error.lockboxError(storage.subject(of: record.name))
        }
    }

    /// - Parameter record: If nil, the error names the key.
    /// - Throws: ``LockboxError/requirementNotMet(record:reason:)`` if this program requires a better protected class.
    func checkIsAllowed(_ accessibility: Accessibility, for key: ItemKey, in record: ItemRecord?) throws {
        guard let minimum = keyStore.requirements.minimumAccessibility,
            !ItemKey.isReserved(prefix: key.prefix), accessibility.protection < minimum.protection
        else { return }
        throw LockboxError.requirementNotMet(
            record: record.map { storage.subject(of: $0.name) } ?? .other(key.location),
            reason: "its class is \(accessibility); this program requires at least \(minimum)"
        )
    }

    /// Lockbox's own records are exempt: they have such a class only to stay out of backups.
    private func checkStaysHere(_ item: StoredItem) throws {
        let accessibility = item.attributes.accessibility
        if storage.isOnThisDevice || !accessibility.isThisDeviceOnly
            || ItemKey.isReserved(prefix: item.key.prefix)
        {
            return
        }
        throw LockboxError.notSupported(
            operation: "keeping an item of the class \(accessibility) in a storage that other devices share"
        )
    }

    /// - Throws: ``LockboxError/valueTooLarge(size:limit:)`` if the storage cannot hold the record.
    func seal(_ item: StoredItem, into record: ItemRecord, with keyring: Keyring) throws -> [UInt8] {
        try checkIsAllowed(item.attributes.accessibility, for: item.key, in: record)
        try checkStaysHere(item)
        let bytes = try envelope(of: item, id: record.id, keyring: keyring)
        if bytes.count > storage.limits.maximumRecordLength {
            throw LockboxError.valueTooLarge(size: item.value.data.count, limit: maximumValueSize)
        }
        return bytes
    }

    private func envelope(of item: StoredItem, id: RecordID, keyring: Keyring) throws(LockboxError) -> [UInt8]
    {
        let new = item.attributes.accessibility
        do { return try ItemEnvelope.seal(item, id: id, keyring: keyring) } catch .locked(let accessibility) {
            throw .interactionNotAllowed(accessibility)
        } catch RecordError.unknownKey where new == .whenPasscodeSetThisDeviceOnly {
            throw .passcodeNotSet
        } catch {
            throw error.lockboxError("the key of the class \(new)")
        }
    }

    /// Returns nil if there is no such item.
    ///
    /// - Parameters:
    ///   - prefix: The one whose namespace the record is in, if it is known.
    ///   - whenRead: Receives the record before it is opened.
    func metadata(
        _ record: ItemRecord,
        _ keyring: Keyring,
        in prefix: String? = nil,
        whenRead: (RecordContents) -> Void = { _ in }
    ) throws -> ItemMetadata? {
        var isCut = false
        func open(atLeast minimum: Int) throws -> ItemMetadata? {
            try withRecord(record, keyring, atLeast: minimum) {
                whenRead($0)
                isCut = minimum == 0 && !ItemHeader.containsMetadata($0.bytes)
                return try isCut ? nil : ItemEnvelope.openMetadata($0.bytes, id: $1, keyring: $2)
            } ?? nil
        }
        // Most metadata is in the first bytes that are read in any case.
        var metadata = try open(atLeast: 0)
        if isCut { metadata = try open(atLeast: ItemEnvelope.maximumMetadataEnd) }
        // The record is bound to its name, but not to its folder.
        if let metadata, metadata.key.prefix != prefix,
            namespace(of: metadata.key.prefix, keyring) != record.name.namespace
        {
            throw LockboxError.authenticationFailed(record: storage.subject(of: record.name))
        }
        if let metadata {
            try checkIsAllowed(metadata.attributes.accessibility, for: metadata.key, in: record)
        }
        return metadata
    }

    /// Returns nil if there is no such item, or if it cannot be read, after it has named it.
    func readableMetadata(
        _ record: ItemRecord,
        _ keyring: Keyring,
        in prefix: String? = nil,
        unreadable: (UnreadableItem) throws -> Void
    ) throws -> ItemMetadata? {
        do { return try metadata(record, keyring, in: prefix) } catch let error as LockboxError {
            try unreadable(unreadableItem(record, error: error))
            return nil
        }
    }

    /// - Throws: `error` itself if it is not about this record, but about the whole store.
    func unreadableItem(_ record: ItemRecord, key: ItemKey? = nil, error: LockboxError) throws
        -> UnreadableItem
    {
        guard error.isOfOneRecord else { throw error }
        let location = storage.location(of: record.name)
        return UnreadableItem(key: key, record: record.name.path, location: location, error: error)
    }

    /// Returns an item's header and revision, or nil if the header is malformed or the item absent.
    func header(of record: ItemRecord) throws -> (header: ItemHeader, revision: RecordRevision)? {
        try withContents(of: record, atLeast: ItemHeader.length) { contents in
            ItemHeader.beginning(of: contents.bytes).map { ($0, contents.revision) }
        } ?? nil
    }

    /// Returns how errors refer to the record of an item, or `nil` if there is no store.
    public func location(of key: ItemKey) throws -> String? {
        try keyStore.keyring(creating: false).map { storage.location(of: itemRecord(of: key, $0).name) }
    }

    /// The size in bytes of the largest value that fits into one record together with the longest attributes.
    public var maximumValueSize: Int {
        ItemEnvelope.maximumValueSize(inRecordOf: storage.limits.maximumRecordLength)
    }

    /// Whether the items stay on this device: `false` for a storage that other machines share.
    public var isOnThisDevice: Bool { storage.isOnThisDevice }

    // MARK: One namespace

    private static var maximumNamespaces: Int { 1024 }

    func namespace(of prefix: String, _ keyring: Keyring) -> String {
        namespaces.withLock { known in
            // The key never changes, but an attacker with the device key can forge a keybag with another one.
            if known.key !== keyring.names || known.names.count >= Self.maximumNamespaces {
                known = (keyring.names, [:])
            }
            if let namespace = known.names[prefix] { return namespace }
            let namespace = keyring.namespace(ofPrefix: prefix)
            known.names[prefix] = namespace
            return namespace
        }
    }

    func itemRecord(of key: ItemKey, _ keyring: Keyring) -> ItemRecord {
        let id = keyring.itemID(key)
        return ItemRecord(
            name: RecordName(namespace: namespace(of: key.prefix, keyring), name: id.name),
            id: id
        )
    }

    /// Returns the namespace's items, damaged ones included. Files that are not items are passed to `others`.
    func items(
        in namespace: String,
        waitingForCommits: Bool = false,
        others: (String) -> Void = { _ in }
    ) throws -> ItemRecords {
        var items = ItemRecords(namespace: namespace)
        try storage.forEachName(in: namespace, waitingForCommits: waitingForCommits) { name in
            if let id = RecordID(name: name) { items.ids.append(id) } else { others(name) }
        }
        return items
    }
}

extension SealedBackend: Undescribed {}

/// The default backend: stores each item in a file of its own, encrypted with libsodium.
///
/// ```swift
/// let backend = EncryptedFileBackend(directory: "/var/lib/example/secrets")
/// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: backend)
/// ```
public typealias EncryptedFileBackend = SealedBackend

extension SealedBackend {
    /// Creates a backend for the store in a folder. Reads and writes nothing.
    ///
    /// The first write creates the folder (mode 0700) and the store's keys if they do not exist. It throws
    /// ``LockboxError/invalidLocation(location:reason:)`` if the folder has no store, and is not empty.
    ///
    /// - Parameters:
    ///   - directory: An absolute path, one that begins with `~/`, or one relative to the current directory, which
    ///     begins with `./` or `../`.
    ///   - deviceKey: The source of the device key. It must always be the same for one store. By default, the
    ///     key is stored in the folder.
    ///   - requirements: The program's requirements for the store.
    ///   - counter: A monotonic counter, such as one in a TPM, that detects a store restored from an older copy. Every
    ///     program that uses the store must pass it, because the changes of a program without it are not counted.
    ///   - lockTimeout: How long a write waits for another writer that makes no progress: it may have been stopped. Canceling
    ///     the task of an `async` call ends the wait too.
    public convenience init(
        directory: String,
        deviceKey: DeviceKeySource = .stored,
        requires requirements: StoreRequirements = StoreRequirements(),
        counter: (any GenerationCounter)? = nil,
        lockTimeout: Duration = .seconds(30)
    ) {
        let storage = FileStorage(directory: directory, lockTimeout: lockTimeout)
        self.init(
            KeyStore(
                storage: storage,
                deviceKey: deviceKey,
                requires: requirements,
                memory: .ofUser(of: storage.directory),
                counter: counter
            )
        )
    }

    /// The user's store, shared by all programs like a login keychain.
    ///
    /// Its folder is `LOCKBOX_DIRECTORY`; otherwise `lockbox` in the first folder of `STATE_DIRECTORY`, which
    /// systemd sets for services; otherwise `lockbox` in `XDG_DATA_HOME`; otherwise `~/.local/share/lockbox`.
    /// On Apple's systems, `~/Library/Application Support/lockbox` replaces the last two. The environment is
    /// read once.
    public static let `default` = SealedBackend(storage: FileStorage.default)
}

/// Ends a list at the first item that can be read.
private struct FoundPrefix: Error { let prefix: String }
