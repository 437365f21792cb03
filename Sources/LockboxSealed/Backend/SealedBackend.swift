import LockboxCore
import LockboxFiles
import LockboxPlatform

/// Seals items and keeps them in a ``RecordStorage``.
///
/// The keys stand in the store's keybag, wrapped by the device key, and are unwrapped once, at the first use; no
/// operation derives or parses them again. What is stored, byte for byte: <doc:OnDiskFormat>.
///
/// Names and attributes are sealed with a key that the device key alone unwraps, so that items can be listed
/// and removed whatever is locked.
public final class SealedBackend<Storage: RecordStorage>: LockableBackend {
    /// Where the records are.
    public let storage: Storage

    let keys: KeyStore<Storage>
    private let scopes = Protected<[String: String]>([:])

    /// Nothing is opened yet.
    ///
    /// - Parameters:
    ///   - storage: Where the records are.
    ///   - deviceKey: What wraps the keybag. Always the same for one store.
    public convenience init(storage: Storage, deviceKey: DeviceKey = .stored) {
        self.init(storage: storage, deviceKey: deviceKey, kernel: KernelKeyring())
    }

    init(storage: Storage, deviceKey: DeviceKey, kernel: KernelKeyring) {
        self.storage = storage
        keys = KeyStore(storage: storage, deviceKey: deviceKey, kernel: kernel)
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
        var found: [ItemKey: ItemAttributes] = [:]
        try forEachItem(prefix: prefix, now: now) { found[$0] = $1 }
        return found
    }

    /// See ``LockboxBackend/forEachItem(prefix:now:_:)``. A million items take some 120 MB of memory meanwhile.
    public func forEachItem(prefix: String, now: Date, _ body: (ItemKey, ItemAttributes) throws -> Void)
        throws
    {
        guard let keyring = try keys.keyring(creating: false) else { return }
        let items = try items(scope: scope(of: prefix, keyring))
        if items.isEmpty { try keys.checkIsThere() }
        for item in items {
            // None: it was removed since the names were read.
            guard let metadata = try metadata(item, keyring) else { continue }
            if !metadata.attributes.isExpired(at: now) { try body(metadata.key, metadata.attributes) }
        }
    }

    /// See ``LockboxBackend/prefixes()``.
    public func prefixes() throws -> Set<String> {
        guard let keyring = try keys.keyring(creating: false) else { return [] }
        var prefixes: Set<String> = []
        for scope in try storage.scopes() where keyring.isScopeName(scope) {
            for item in try items(scope: scope) {
                guard let prefix = try metadata(item, keyring)?.key.prefix else { continue }
                if !ItemKey.isReserved(prefix: prefix) { prefixes.insert(prefix) }
                break
            }
        }
        if prefixes.isEmpty { try keys.checkIsThere() }
        return prefixes
    }

    // MARK: Writing

    /// See ``LockboxBackend/write(_:policy:)``.
    public func write(_ item: StoredItem, policy: WritePolicy) throws {
        try change(item.key, creating: policy != .updateOnly) { place, keyring in
            let old = try existing(place, keyring, at: item.attributes.modified)
            try policy.check(key: item.key.key, exists: old.exists)
            var item = item
            if case .present(let created, let accessibility) = old {
                // As in Keychain: what is locked is not overwritten either.
                if !keyring.isOpen(accessibility) { throw LockboxError.interactionNotAllowed(accessibility) }
                let attributes = try item.attributes.changing(created: created)
                item = StoredItem(key: item.key, value: item.value, checked: attributes)
            }
            try storage.replace(place.record, seal(item, place.id, keyring))
        }
    }

    /// Stores the item as it is, dates included, in place of whatever is there, unless that is locked.
    func overwrite(_ item: StoredItem) throws {
        try change(item.key, creating: true) { place, keyring in
            let old = try existing(place, keyring, at: ItemAttributes.beforeAnyExpiry)
            if case .present(_, let accessibility) = old, !keyring.isOpen(accessibility) {
                throw LockboxError.interactionNotAllowed(accessibility)
            }
            try storage.replace(place.record, seal(item, place.id, keyring))
        }
    }

    /// Stores the item as it is, dates included, where there is none, or one that has expired by `now`, be it locked. False
    /// if there is another.
    func add(_ item: StoredItem, now: Date) throws -> Bool {
        var isFree = false
        try change(item.key, creating: true) { place, keyring in
            isFree = try !existing(place, keyring, at: now).exists
            if isFree { try storage.replace(place.record, seal(item, place.id, keyring)) }
        }
        return isFree
    }

    /// See ``LockboxBackend/update(_:now:_:)``.
    public func update(_ key: ItemKey, now: Date, _ change: (StoredItem?) throws -> StoredItem?) throws {
        // Without a store there is no item, and a store is made only for something to be in it.
        if try keys.keyring(creating: false) == nil, try change(nil) == nil { return }
        try self.change(key, creating: true) { place, keyring in
            let old = try item(for: key, now: now)
            if let new = try change(old) {
                try storage.replace(place.record, seal(new, place.id, keyring))
            } else {
                try storage.remove([place.record.name], scope: place.record.scope)
            }
        }
    }

    /// See ``LockboxBackend/remove(_:)``.
    public func remove(_ key: ItemKey) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        let record = place(of: key, keyring).record
        if try !storage.exists(record) {
            // There may be no folder for a lock either, and need not be.
            try storage.remove([], scope: record.scope)
            return try keys.checkIsThere()
        }
        try storage.withLock(on: record.scope) { try storage.remove([record.name], scope: record.scope) }
    }

    /// See ``LockboxBackend/removeAll(prefix:)``.
    public func removeAll(prefix: String) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        try removeItems(scope: scope(of: prefix, keyring)) { _ in true }
    }

    /// See ``LockboxBackend/removeExpired(prefix:now:)``.
    @discardableResult
    public func removeExpired(prefix: String, now: Date) throws -> Int {
        guard let keyring = try keys.keyring(creating: false) else { return 0 }
        return try removeItems(scope: scope(of: prefix, keyring)) { item in
            // What cannot be read is not known to be expired.
            try existing(item, keyring, at: now) == .expired
        }
    }

    /// Removes every item of a class that was sealed with a key that the store has no more, of whatever prefix.
    func removeUnopenableItems(of accessibility: Accessibility) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        for scope in try storage.scopes() where keyring.isScopeName(scope) {
            // One may just be being written: its writer has finished when the lock is had.
            try storage.withLock(on: scope) {}
            try removeItems(scope: scope) { item in
                guard let seal = try? seal(of: item), seal.accessibility == accessibility else {
                    return false
                }
                // Looked at under the scope's lock: another process may have made a key again, and used it.
                return try !keys.currentKeyring().holds(.classKey(accessibility), epoch: seal.epoch)
            }
        }
    }

    /// Others take turns with this: no lock is held for more than one of these batches.
    private static var removalBatch: Int { 250 }

    @discardableResult
    private func removeItems(scope: String, where isChosen: (ItemRecord) throws -> Bool) throws -> Int {
        let items = try items(scope: scope)
        if items.isEmpty {
            try storage.remove([], scope: scope)
            try keys.checkIsThere()
        }
        var count = 0
        for start in stride(from: 0, to: items.count, by: Self.removalBatch) {
            let batch = items[start..<min(start + Self.removalBatch, items.count)]
            count += try storage.withLock(on: scope) {
                let names = try batch.filter(isChosen).map(\.record.name)
                try storage.remove(names, scope: scope)
                return names.count
            }
        }
        return count
    }

    // MARK: One record

    private func read(
        _ key: ItemKey,
        upTo limit: Int = .max,
        _ open: (UnsafeMutableRawBufferPointer, RecordID, Keyring) throws -> Void
    ) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        guard try !read(place(of: key, keyring), keyring, upTo: limit, open) else { return }
        // Not there, then; unless the whole store has gone.
        try keys.checkIsThere()
    }

    /// Opens a record with `open`; once more under the keybag as it is now, if the keyring in hand does not hold the key
    /// that the record names, or holds it locked. False if there is no such record.
    func read(
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
            var keyring = keyring
            while true {
                do { return try attempt(keyring) } catch let fault as RecordFault where fault.isOfKeyring {
                    let current = try keys.currentKeyring()
                    if current === keyring { throw fault }
                    keyring = current
                }
            }
        } catch let fault as RecordFault {
            throw fault.error(storage.location(of: place.record))
        }
    }

    /// Runs `body` under the lock of the item's scope, with the keys as they are while it is held.
    private func change(
        _ key: ItemKey,
        creating: Bool,
        _ body: (ItemRecord, Keyring) throws -> Void
    ) throws {
        guard let keyring = try keys.keyring(creating: creating) else {
            throw LockboxError.itemNotFound(key: key.key)
        }
        let place = place(of: key, keyring)
        try storage.withLock(on: place.record.scope) { try body(place, try keys.currentKeyring()) }
    }

    func seal(_ item: StoredItem, _ id: RecordID, _ keyring: Keyring) throws -> [UInt8] {
        do { return try ItemEnvelope.seal(item, id: id, keyring: keyring) } catch .locked(let accessibility) {
            throw LockboxError.interactionNotAllowed(accessibility)
        } catch RecordFault.unknownKey where item.attributes.accessibility == .whenPasscodeSetThisDeviceOnly {
            throw LockboxError.passcodeNotSet
        } catch {
            throw error.error("the key of the class \(item.attributes.accessibility)")
        }
    }

    private func existing(_ place: ItemRecord, _ keyring: Keyring, at now: Date) throws -> ExistingItem {
        do {
            guard let old = try metadata(place, keyring) else { return .absent }
            if old.attributes.isExpired(at: now) { return .expired }
            return .present(created: old.attributes.created, old.attributes.accessibility)
        } catch LockboxError.corrupt, LockboxError.authenticationFailed {
            return .damaged
        }
    }

    /// Nil if there is no such item.
    func metadata(_ place: ItemRecord, _ keyring: Keyring) throws -> ItemMetadata? {
        var metadata: ItemMetadata?
        _ = try read(place, keyring, upTo: ItemEnvelope.maximumMetadataEnd) {
            metadata = try ItemEnvelope.openMetadata($0, id: $1, keyring: $2)
        }
        // The record is bound to its name, but not to the folder that it lies in.
        if let metadata, scope(of: metadata.key.prefix, keyring) != place.record.scope {
            throw LockboxError.authenticationFailed(record: storage.location(of: place.record))
        }
        return metadata
    }

    /// The class and the epoch that an item's header names; nil if it has none.
    func seal(of place: ItemRecord) throws -> (accessibility: Accessibility, epoch: UInt32)? {
        var seal: (Accessibility, UInt32)?
        _ = try storage.read(place.record, upTo: ItemHeader.length, maximum: ItemEnvelope.maximumLength) {
            seal = ItemHeader.seal($0)
        }
        return seal
    }

    /// Where an item's record is, or would be. Makes the store if there is none.
    func record(of key: ItemKey) throws -> RecordName {
        place(of: key, try keys.currentKeyring(creating: true)).record
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
    func items(scope: String) throws -> ItemRecords {
        var items = ItemRecords(scope: scope)
        try storage.forEachName(in: scope) { name in
            if let id = RecordID(name: name) { items.ids.append(id) }
        }
        return items
    }
}

// Not nested in the generic class: their metadata would have to be looked up at every access.

/// Where an item's record is: its name, and the id that the name stands for.
struct ItemRecord: Sendable {
    let record: RecordName
    let id: RecordID
}

/// A scope's items, in little memory: there may be a million.
struct ItemRecords: RandomAccessCollection {
    let scope: String
    var ids: [RecordID] = []

    var startIndex: Int { 0 }
    var endIndex: Int { ids.count }

    subscript(index: Int) -> ItemRecord {
        ItemRecord(record: RecordName(scope: scope, name: ids[index].name), id: ids[index])
    }
}

private enum ExistingItem: Equatable {
    case absent
    case expired
    case present(created: Date, Accessibility)
    /// There, but not to be read: it may be overwritten, and it is no free place.
    case damaged

    var exists: Bool { self != .absent && self != .expired }
}
