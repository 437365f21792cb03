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
        keyStore.known.memory.flatMap { $0.isWritable ? nil : $0.path }
    }

    let keyStore: KeyStore
    let keyChanges: KeyChanges
    let reader: ItemReader
    let writer: ItemWriter
    let remover: ItemRemover

    /// Creates a backend. Reads and writes nothing.
    ///
    /// - Parameters:
    ///   - storage: Stores the records.
    ///   - deviceKey: The source of the device key, which encrypts the keybag. It must always be the same for one
    ///     store, unless `rotateKeys(newDeviceKey:)` replaces it.
    ///   - requirements: The program's requirements for the store.
    public convenience init(
        storage: any RecordStorage,
        deviceKey: DeviceKeySource = .stored,
        requires requirements: StoreRequirements = StoreRequirements()
    ) {
        let memory = StoreMemory.ofUser(of: storage.asFiles?.directory)
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

    init(_ keyStore: KeyStore, while condition: ItemCondition? = nil) {
        self.keyStore = keyStore
        keyChanges = KeyChanges(keys: keyStore)
        reader = ItemReader(keyStore)
        writer = ItemWriter(reader: reader, condition: condition)
        remover = ItemRemover(reader: reader)
    }

    // MARK: Reading

    /// Returns the value of an item, or `nil` if it is absent.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try reader.openRecord(of: key, now: now) {
            try ItemEnvelope.openValue($0.bytes, id: $1, keyring: $2, now: now)
        }
    }

    /// Returns an item with its attributes, or `nil` if it is absent.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        try reader.openRecord(of: key, now: now) {
            try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: now)
        }
    }

    /// Returns the attributes of an item, locked or not, or `nil` if it is absent.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try reader.attributes(for: key, now: now)
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
        try reader.forEachItem(prefix: prefix, now: now, unreadable: unreadable, body)
    }

    /// Returns every prefix that has items.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func prefixes() throws -> Set<String> { try prefixes { throw $0.error } }

    /// Returns every prefix that has readable items.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String> {
        try reader.prefixes(unreadable: unreadable)
    }

    /// Returns how errors refer to the record of an item, or `nil` if there is no store.
    public func location(of key: ItemKey) throws -> String? {
        try keyStore.keyring(creating: false).map {
            storage.location(of: reader.itemRecord(of: key, $0).name)
        }
    }

    /// The size in bytes of the largest value that fits into one record together with the longest attributes.
    public var maximumValueSize: Int { writer.maximumValueSize }

    /// Whether the items stay on this device: `false` for a storage that other machines share.
    public var isOnThisDevice: Bool { storage.limits.isOnThisDevice }

    // MARK: Writing

    /// Returns a backend for the same store that writes items only while another one is as `check` wants it: in one step with each
    /// commit.
    package func writing(
        while key: ItemKey,
        _ check: @escaping @Sendable (StoredItem?) throws -> Void
    ) -> SealedBackend {
        SealedBackend(keyStore, while: ItemCondition(key: key, check: check))
    }

    /// Creates an item, or changes the parts of an existing one that the changes set. A locked item cannot
    /// be changed, as in the Keychain. With ``WritePolicy/replace``, a damaged one is overwritten.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func write(_ changes: ItemChanges, to key: ItemKey) throws {
        try writer.write(changes, to: key)
    }

    /// Performs many operations. In files, up to 1,000 operations or 4 MiB are synchronized together. If
    /// one of these is refused, none of them is performed.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func apply(_ operations: [ItemOperation]) throws {
        try writer.apply(operations)
    }

    /// Atomically creates, replaces or removes an item.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try writer.update(key, now: now, change)
    }

    /// Moves an item to another key, in one commit. If the storage is not transactional, a crash in between leaves the item under
    /// both keys, and the call can be repeated.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try writer.put(key, under: newKey, policy: policy, now: now, isMove: true)
    }

    /// Copies an item to another key, if it is still there and unchanged when the copy is committed.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try writer.put(key, under: newKey, policy: policy, now: now, isMove: false)
    }

    /// Makes the items of a prefix that can be read durable.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func synchronize(prefix: String) throws {
        guard let keyring = try keyStore.keyring(creating: false) else { return }
        try storage.asFiles?.synchronize(reader.namespace(of: prefix, keyring))
    }

    // MARK: Removing

    /// Removes an item, readable or not.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func remove(_ key: ItemKey) throws {
        try remover.remove(key)
    }

    /// Removes every item with a prefix, also one that another writer moves to another key of the prefix meanwhile.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func removeAll(prefix: String) throws {
        try remover.removeAll(prefix: prefix)
    }

    /// Removes the expired items with a prefix, and returns their number.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        try remover.removeExpired(prefix: prefix, now: now, unreadable: unreadable)
    }
}

extension SealedBackend: RevisingBackend {
    package func revisedItem(for key: ItemKey, now: Date?) throws -> Original? {
        guard let keyring = try keyStore.keyring(creating: false) else { return nil }
        let found = try reader.openItem(reader.itemRecord(of: key, keyring), keyring, at: now)
        guard let item = found.content else {
            try keyStore.checkIsThere()
            return nil
        }
        return Original(item) { [writer] in try writer.remove(found.map { _ in item }) }
    }
}

extension SealedBackend: Undescribed {}

extension LockboxBackend {
    /// The storage of the store if it is in files.
    package var asFiles: (any FilingStorage)? { (self as? SealedBackend)?.storage.asFiles }
}

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
