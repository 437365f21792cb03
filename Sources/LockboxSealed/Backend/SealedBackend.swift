public import LockboxCore
import LockboxFiles
public import LockboxPlatform

/// Seals items and stores them in a ``RecordStorage``.
///
/// The keys are kept in the store's keybag, wrapped with the device key. They are unwrapped once, at the first
/// use, and then stay in memory. For the format of the records, see <doc:OnDiskFormat>.
///
/// Names and attributes are sealed with a key that needs only the device key, so items can be listed and
/// removed while they are locked.
public final class SealedBackend<Storage: RecordStorage>: LockableBackend {
    /// Stores the records.
    public let storage: Storage

    let keys: KeyStore<Storage>
    private let namespaces = Protected<[String: String]>([:])

    /// Creates a backend. Reads and writes nothing.
    ///
    /// - Parameters:
    ///   - storage: Stores the records.
    ///   - deviceKey: The source of the device key, which wraps the keybag. It must always be the same for one
    ///     store.
    public convenience init(storage: Storage, deviceKey: DeviceKeySource = .stored) {
        self.init(storage: storage, deviceKey: deviceKey, kernel: KernelKeyring())
    }

    init(storage: Storage, deviceKey: DeviceKeySource, kernel: KernelKeyring) {
        self.storage = storage
        keys = KeyStore(storage: storage, deviceKey: deviceKey, kernel: kernel)
    }

    // MARK: Reading

    /// See ``LockboxBackend/value(for:now:)``.
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        var value: ArchivedValue?
        try read(key) { value = try ItemEnvelope.openValue($0.bytes, id: $1, keyring: $2, now: now) }
        return value
    }

    /// See ``LockboxBackend/item(for:now:)``.
    public func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        var item: StoredItem?
        try read(key) { item = try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: now) }
        return item
    }

    /// See ``LockboxBackend/attributes(for:now:)``.
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        var attributes: ItemAttributes?
        try read(key, upTo: ItemEnvelope.maximumMetadataEnd) {
            attributes = try ItemEnvelope.openMetadata($0.bytes, id: $1, keyring: $2).attributes
        }
        return attributes.flatMap { $0.isExpired(at: now) ? nil : $0 }
    }

    /// See ``LockboxBackend/attributes(prefix:now:)``.
    public func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        var found: [ItemKey: ItemAttributes] = [:]
        try forEachItem(prefix: prefix, now: now) { found[$0] = $1 }
        return found
    }

    /// See ``LockboxBackend/forEachItem(prefix:now:_:)``. Needs some 120 MB of memory for a million items.
    public func forEachItem(prefix: String, now: Date?, _ body: (ItemKey, ItemAttributes) throws -> Void)
        throws
    {
        guard let keyring = try keys.keyring(creating: false) else { return }
        let items = try items(in: namespace(of: prefix, keyring))
        if items.isEmpty { try keys.checkIsThere() }
        for item in items {
            // Nil if the item was removed after the names were read.
            guard let metadata = try metadata(item, keyring) else { continue }
            if !metadata.attributes.isExpired(at: now) { try body(metadata.key, metadata.attributes) }
        }
    }

    /// See ``LockboxBackend/prefixes()``.
    public func prefixes() throws -> Set<String> {
        guard let keyring = try keys.keyring(creating: false) else { return [] }
        var prefixes: Set<String> = []
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            for item in try items(in: namespace) {
                guard let prefix = try metadata(item, keyring)?.key.prefix else { continue }
                if !ItemKey.isReserved(prefix: prefix) { prefixes.insert(prefix) }
                break
            }
        }
        if prefixes.isEmpty { try keys.checkIsThere() }
        return prefixes
    }

    // MARK: One record

    private func read(
        _ key: ItemKey,
        upTo limit: Int = .max,
        _ open: (RecordContents, RecordID, Keyring) throws -> Void
    ) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        guard try !read(itemRecord(of: key, keyring), keyring, upTo: limit, open) else { return }
        // An absent record means an absent item, unless the whole store is gone.
        try keys.checkIsThere()
    }

    /// Opens a record with `open`. If the keyring lacks the key that the record names, or holds it locked,
    /// tries again with the current keybag. Returns false if there is no such record.
    func read(
        _ record: ItemRecord,
        _ keyring: Keyring,
        upTo limit: Int,
        _ open: (RecordContents, RecordID, Keyring) throws -> Void
    ) throws -> Bool {
        func attempt(_ keyring: Keyring) throws -> Bool {
            try storage.read(record.name, upTo: limit, maximum: ItemEnvelope.maximumLength) {
                try open($0, record.id, keyring)
            }
        }
        do {
            var keyring = keyring
            while true {
                do { return try attempt(keyring) } catch let fault as RecordError where fault.isOfKeyring {
                    let current = try keys.currentKeyring()
                    if current === keyring { throw fault }
                    keyring = current
                }
            }
        } catch let fault as RecordError {
            throw fault.error(storage.location(of: record.name))
        }
    }

    func seal(_ item: StoredItem, _ id: RecordID, _ keyring: Keyring) throws -> [UInt8] {
        do { return try ItemEnvelope.seal(item, id: id, keyring: keyring) } catch .locked(let accessibility) {
            throw LockboxError.interactionNotAllowed(accessibility)
        } catch RecordError.unknownKey where item.attributes.accessibility == .whenPasscodeSetThisDeviceOnly {
            throw LockboxError.passcodeNotSet
        } catch {
            throw error.error("the key of the class \(item.attributes.accessibility)")
        }
    }

    /// Returns nil if there is no such item.
    func metadata(_ record: ItemRecord, _ keyring: Keyring) throws -> ItemMetadata? {
        var revision = RecordRevision.absent
        return try metadata(record, keyring, &revision)
    }

    func metadata(_ record: ItemRecord, _ keyring: Keyring, _ revision: inout RecordRevision) throws
        -> ItemMetadata?
    {
        var metadata: ItemMetadata?
        _ = try read(record, keyring, upTo: ItemEnvelope.maximumMetadataEnd) {
            revision = $0.revision
            metadata = try ItemEnvelope.openMetadata($0.bytes, id: $1, keyring: $2)
        }
        // The record is bound to its name, but not to its folder.
        if let metadata, namespace(of: metadata.key.prefix, keyring) != record.name.namespace {
            throw LockboxError.authenticationFailed(record: storage.location(of: record.name))
        }
        return metadata
    }

    /// The class and the epoch in an item's header, or nil if the header is malformed or the item absent.
    func seal(of record: ItemRecord) throws -> (
        accessibility: Accessibility, epoch: UInt32, revision: RecordRevision
    )? {
        var seal: (Accessibility, UInt32, RecordRevision)?
        let maximum = ItemEnvelope.maximumLength
        _ = try storage.read(record.name, upTo: ItemHeader.length, maximum: maximum) { contents in
            seal = ItemHeader.seal(contents.bytes).map { ($0, $1, contents.revision) }
        }
        return seal
    }

    /// Returns the name of an item's record, existing or not. Creates the store if there is none.
    func record(of key: ItemKey) throws -> RecordName {
        itemRecord(of: key, try keys.currentKeyring(creating: true)).name
    }

    // MARK: One namespace

    private static var maximumNamespaces: Int { 1024 }

    func namespace(of prefix: String, _ keyring: Keyring) -> String {
        namespaces.withLock { namespaces in
            if let namespace = namespaces[prefix] { return namespace }
            if namespaces.count >= Self.maximumNamespaces { namespaces.removeAll() }
            let namespace = keyring.namespace(ofPrefix: prefix)
            namespaces[prefix] = namespace
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

    /// Returns the namespace's items, damaged ones included. Files that are not items are left out.
    func items(in namespace: String, waitingForCommits: Bool = false) throws -> ItemRecords {
        var items = ItemRecords(namespace: namespace)
        try storage.forEachName(in: namespace, waitingForCommits: waitingForCommits) { name in
            if let id = RecordID(name: name) { items.ids.append(id) }
        }
        return items
    }
}
