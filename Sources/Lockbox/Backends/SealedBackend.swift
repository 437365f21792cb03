import Clibsodium
import Foundation

/// Seals items and keeps them in a ``RecordStorage``.
///
/// The keys stand in the store's keybag, wrapped by the device key, and are unwrapped once, at the first use; no
/// operation derives or parses them again. What is stored, byte for byte: <doc:OnDiskFormat>.
///
/// Names and attributes are sealed with a key that the device key alone unwraps, so that items can be listed
/// and removed whatever is locked.
public final class SealedBackend<Storage: RecordStorage>: LockboxBackend {
    /// Where the records are.
    public let storage: Storage

    private let opened = Protected<OpenedKeybag?>(nil)
    private let scopes = Protected<[String: String]>([:])

    /// Nothing is opened yet.
    public init(storage: Storage) {
        self.storage = storage
    }

    // MARK: Reading

    /// See ``LockboxBackend/value(for:now:)``.
    public func value(for key: ItemKey, now: Date) throws -> ArchivedValue? {
        var value: ArchivedValue?
        try read(key) { value = try ItemEnvelope.openValue($0, id: $1, keyring: $2, now: now) }
        return value
    }

    /// See ``LockboxBackend/item(for:now:)``.
    public func item(for key: ItemKey, now: Date) throws -> StoredItem? {
        var item: StoredItem?
        try read(key) { item = try ItemEnvelope.openItem($0, id: $1, keyring: $2, now: now) }
        return item
    }

    /// See ``LockboxBackend/attributes(for:now:)``.
    public func attributes(for key: ItemKey, now: Date) throws -> ItemAttributes? {
        var attributes: ItemAttributes?
        try read(key, upTo: ItemEnvelope.maximumMetadataEnd) {
            attributes = try ItemEnvelope.openMetadata($0, id: $1, keyring: $2).attributes
        }
        return attributes.flatMap { $0.isExpired(at: now) ? nil : $0 }
    }

    /// See ``LockboxBackend/attributes(prefix:now:)``.
    public func attributes(prefix: String, now: Date) throws -> [ItemKey: ItemAttributes] {
        guard let keyring = try keyring(creating: false) else { return [:] }
        var found: [ItemKey: ItemAttributes] = [:]
        for item in try items(scope: scope(of: prefix, keyring)) {
            // None: it was removed since the names were read.
            guard let metadata = try metadata(item, keyring) else { continue }
            if !metadata.attributes.isExpired(at: now) { found[metadata.key] = metadata.attributes }
        }
        return found
    }

    /// See ``LockboxBackend/prefixes()``.
    public func prefixes() throws -> Set<String> {
        guard let keyring = try keyring(creating: false) else { return [] }
        var prefixes: Set<String> = []
        for scope in try storage.scopes() where keyring.isScopeName(scope) {
            for item in try items(scope: scope) {
                guard let metadata = try metadata(item, keyring) else { continue }
                prefixes.insert(metadata.key.prefix)
                break
            }
        }
        return prefixes
    }

    // MARK: Writing

    /// See ``LockboxBackend/write(_:policy:)``.
    public func write(_ item: StoredItem, policy: WritePolicy) throws {
        try change(item.key) { place, keyring in
            let old = try existing(place, keyring, at: item.attributes.modified)
            try policy.check(key: item.key.key, exists: old != .absent)
            var item = item
            if case .present(let created) = old {
                let attributes = try item.attributes.changing(created: created)
                item = StoredItem(key: item.key, value: item.value, checked: attributes)
            }
            try storage.replace(place.record, seal(item, place.id, keyring))
        }
    }

    /// See ``LockboxBackend/setAccessibility(_:for:now:)``.
    public func setAccessibility(_ accessibility: Accessibility, for key: ItemKey, now: Date) throws {
        try change(key) { place, keyring in
            guard let old = try item(for: key, now: now) else {
                throw LockboxError.itemNotFound(key: key.key)
            }
            let attributes = try old.attributes.changing(accessibility: accessibility, modified: now)
            let item = StoredItem(key: old.key, value: old.value, checked: attributes)
            try storage.replace(place.record, seal(item, place.id, keyring))
        }
    }

    /// See ``LockboxBackend/remove(_:)``.
    public func remove(_ key: ItemKey) throws {
        guard let keyring = try keyring(creating: false) else { return }
        let record = place(of: key, keyring).record
        // Where there is nothing, there may be no folder for a lock either, and need not be.
        guard try storage.revision(of: record) != nil else { return }
        try storage.withLock(on: record.scope) { try storage.remove([record.name], scope: record.scope) }
    }

    /// See ``LockboxBackend/removeAll(prefix:)``.
    public func removeAll(prefix: String) throws {
        guard let keyring = try keyring(creating: false) else { return }
        let scope = scope(of: prefix, keyring)
        try removeItems(scope: scope) { _ in true }
    }

    /// See ``LockboxBackend/removeExpired(prefix:now:)``.
    @discardableResult
    public func removeExpired(prefix: String, now: Date) throws -> Int {
        guard let keyring = try keyring(creating: false) else { return 0 }
        let scope = scope(of: prefix, keyring)
        return try removeItems(scope: scope) {
            try metadata($0, keyring)?.attributes.isExpired(at: now) ?? false
        }
    }

    @discardableResult
    private func removeItems(scope: String, where isChosen: (ItemRecord) throws -> Bool) throws -> Int {
        if try items(scope: scope).isEmpty { return 0 }
        return try storage.withLock(on: scope) {
            let names = try items(scope: scope).filter(isChosen).map(\.record.name)
            try storage.remove(names, scope: scope)
            return names.count
        }
    }

    // MARK: One record

    private func read(
        _ key: ItemKey,
        upTo limit: Int = .max,
        _ open: (UnsafeMutableRawBufferPointer, RecordID, Keyring) throws -> Void
    ) throws {
        guard let keyring = try keyring(creating: false) else { return }
        guard try !read(place(of: key, keyring), keyring, upTo: limit, open) else { return }
        // Not there, then; unless the whole store has gone.
        if try storage.revision(of: Self.keybagRecord) == nil { throw keybagIsMissing }
    }

    /// Opens a record with `open`; once more under the keybag as it is now, if the record names a key that the
    /// keyring in hand does not hold. False if there is no such record.
    private func read(
        _ place: ItemRecord,
        _ keyring: Keyring,
        upTo limit: Int,
        _ open: (UnsafeMutableRawBufferPointer, RecordID, Keyring) throws -> Void
    ) throws -> Bool {
        func attempt(_ keyring: Keyring) throws -> Bool {
            try storage.read(place.record, upTo: limit, maximum: ItemEnvelope.maximumLength) {
                try open($0, place.id, keyring)
            }
        }
        do {
            do { return try attempt(keyring) } catch RecordFault.unknownKey {
                return try attempt(currentKeyring())
            }
        } catch let fault as RecordFault {
            throw error(fault, place.record)
        }
    }

    /// Runs `body` under the lock of the item's scope, with the keys as they are while it is held.
    private func change(_ key: ItemKey, _ body: (ItemRecord, Keyring) throws -> Void) throws {
        guard let keyring = try keyring(creating: true) else { return }
        let place = place(of: key, keyring)
        try storage.withLock(on: place.record.scope) { try body(place, try currentKeyring()) }
    }

    private func seal(_ item: StoredItem, _ id: RecordID, _ keyring: Keyring) throws -> [UInt8] {
        do { return try ItemEnvelope.seal(item, id: id, keyring: keyring) } catch .unknownKey {
            throw LockboxError.passcodeNotSet(item.attributes.accessibility)
        }
    }

    private func existing(_ place: ItemRecord, _ keyring: Keyring, at now: Date) throws -> ExistingItem {
        do {
            guard let old = try metadata(place, keyring) else { return .absent }
            return old.attributes.isExpired(at: now) ? .absent : .present(created: old.attributes.created)
        } catch LockboxError.corrupt, LockboxError.authenticationFailed {
            return .damaged
        }
    }

    private func metadata(_ place: ItemRecord, _ keyring: Keyring) throws -> ItemMetadata? {
        var metadata: ItemMetadata?
        _ = try read(place, keyring, upTo: ItemEnvelope.maximumMetadataEnd) {
            metadata = try ItemEnvelope.openMetadata($0, id: $1, keyring: $2)
        }
        return metadata
    }

    /// Where an item's record is, or would be. Makes the store if there is none.
    func record(of key: ItemKey) throws -> RecordName {
        guard let keyring = try keyring(creating: true) else { throw keybagIsMissing }
        return place(of: key, keyring).record
    }

    // MARK: One scope

    private static var maximumScopes: Int { 1024 }

    private func scope(of prefix: String, _ keyring: Keyring) -> String {
        scopes.withLock { scopes in
            if let scope = scopes[prefix] { return scope }
            if scopes.count >= Self.maximumScopes { scopes.removeAll() }
            let scope = keyring.scopeName(prefix: prefix)
            scopes[prefix] = scope
            return scope
        }
    }

    private func place(of key: ItemKey, _ keyring: Keyring) -> ItemRecord {
        let id = keyring.itemID(key)
        return ItemRecord(record: RecordName(scope: scope(of: key.prefix, keyring), name: id.name), id: id)
    }

    /// The scope's items; damaged ones too, but not files that are none of ours.
    private func items(scope: String) throws -> [ItemRecord] {
        try storage.names(scope: scope).compactMap { name in
            RecordID(name: name).map { ItemRecord(record: RecordName(scope: scope, name: name), id: $0) }
        }
    }
}

// MARK: - The keys

extension SealedBackend {
    private static var keybagRecord: RecordName { RecordName(name: "keybag") }
    private static var deviceKeyRecord: RecordName { RecordName(name: "device-key") }

    /// The store's keys; nil if there is no store and none is to be made.
    private func keyring(creating: Bool) throws -> Keyring? {
        if let opened = opened.withLock({ $0 }) { return opened.keyring }
        if let keyring = try loadKeyring() { return keyring }
        try checkHasNoItems()
        return creating ? try createKeyring() : nil
    }

    /// The keys as they are in the store now.
    private func currentKeyring() throws -> Keyring {
        let revision = try storage.revision(of: Self.keybagRecord)
        if let opened = opened.withLock({ $0 }), opened.revision == revision { return opened.keyring }
        guard let keyring = try loadKeyring() else { throw keybagIsMissing }
        return keyring
    }

    private func loadKeyring() throws -> Keyring? {
        // Taken first: if the keybag changes in between, it is only read once more.
        guard let revision = try storage.revision(of: Self.keybagRecord) else { return nil }
        guard let deviceKey = try loadDeviceKey() else {
            throw LockboxError.corrupt(
                record: storage.location(of: Self.deviceKeyRecord),
                reason: "it is missing"
            )
        }
        let keybag = try read(Self.keybagRecord, maximum: Keybag.maximumLength) { record in
            try Keybag(UnsafeRawBufferPointer(record), deviceKey: deviceKey)
        }
        guard let keybag else { throw keybagIsMissing }
        return try remember(keybag, deviceKey, revision)
    }

    private func loadDeviceKey() throws -> SecretKey? {
        try read(Self.deviceKeyRecord, maximum: DeviceKeyRecord.length) { record in
            defer { sodium_memzero(record.baseAddress!, record.count) }
            return try DeviceKeyRecord.decode(UnsafeRawBufferPointer(record))
        }
    }

    /// Makes a new store's keys, unless another process has made them meanwhile.
    private func createKeyring() throws -> Keyring {
        try storage.withLock(on: nil) {
            if let keyring = try loadKeyring() { return keyring }
            try checkHasNoItems()
            let deviceKey = try loadDeviceKey() ?? createDeviceKey()
            let keybag = try Keybag.create(deviceKey: deviceKey)
            try storage.replace(Self.keybagRecord, keybag.encoded(deviceKey: deviceKey))
            guard let keyring = try loadKeyring() else { throw keybagIsMissing }
            return keyring
        }
    }

    private func createDeviceKey() throws -> SecretKey {
        let key = try SecretKey.random()
        var record = DeviceKeyRecord.encoded(key)
        defer { sodium_memzero(&record, record.count) }
        try storage.replace(Self.deviceKeyRecord, record)
        return key
    }

    private func remember(_ keybag: Keybag, _ deviceKey: SecretKey, _ revision: RecordRevision) throws
        -> Keyring
    {
        let keyring: Keyring
        do { keyring = try keybag.unwrap(deviceKey: deviceKey) } catch let fault as RecordFault {
            throw error(fault, Self.keybagRecord)
        }
        try checkItems(belongTo: keyring)
        opened.withLock { $0 = OpenedKeybag(keyring: keyring, revision: revision) }
        return keyring
    }

    private func read<Result>(
        _ record: RecordName,
        maximum: Int,
        _ decode: (UnsafeMutableRawBufferPointer) throws -> Result
    ) throws -> Result? {
        var result: Result?
        do {
            _ = try storage.read(record, upTo: maximum, maximum: maximum) { result = try decode($0) }
        } catch let fault as RecordFault {
            throw error(fault, record)
        }
        return result
    }

    /// A store whose keybag is lost must not be taken for a new one, nor its items for absent.
    private func checkHasNoItems() throws {
        if try !storage.scopes().isEmpty { throw keybagIsMissing }
    }

    /// Under another store's keybag, put there with its device key, every item would seem to be absent.
    private func checkItems(belongTo keyring: Keyring) throws {
        let scopes = try storage.scopes()
        if !scopes.isEmpty, !scopes.contains(where: keyring.isScopeName) {
            throw LockboxError.authenticationFailed(record: storage.location(of: Self.keybagRecord))
        }
    }

    private var keybagIsMissing: LockboxError {
        .corrupt(record: storage.location(of: Self.keybagRecord), reason: "it is missing")
    }

    private func error(_ fault: RecordFault, _ record: RecordName) -> LockboxError {
        let location = storage.location(of: record)
        return switch fault {
        case .malformed(let reason): .corrupt(record: location, reason: reason)
        case .notAuthentic: .authenticationFailed(record: location)
        case .wrongDeviceKey: .deviceKeyMismatch(path: storage.location(of: Self.deviceKeyRecord))
        case .unsupportedVersion(let version): .unsupportedVersion(record: location, version: version)
        case .unknownKey: .corrupt(record: location, reason: "the keybag does not hold the key that seals it")
        }
    }
}

// Not nested in the generic class: their metadata would have to be looked up at every access.

/// Where an item's record is: its name, and the id that the name stands for.
private struct ItemRecord {
    let record: RecordName
    let id: RecordID
}

/// The keys, and the keybag's revision that they are of.
private struct OpenedKeybag {
    let keyring: Keyring
    let revision: RecordRevision
}

private enum ExistingItem: Equatable {
    case absent
    case present(created: Date)
    /// There, but not to be read: it may be overwritten, and it is no free place.
    case damaged
}
