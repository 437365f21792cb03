package import LockboxCore
import LockboxPlatform

/// Reads the items of a store, or of one prefix, as of one moment.
///
/// If an item was changed, moved or removed before all were read, it begins anew. If that goes on, other writers wait for it, unless it
/// takes longer than ten seconds, the storage has no locks, or this process may only read.
package struct ItemSnapshot {
    /// A finding of the reader.
    package enum Part {
        /// Nothing before it counts. With the store's ID in hexadecimal.
        case begin(storeID: String)
        case item(StoredItem)
        /// An item of a class that stays on this device. It may be locked.
        case staysOnThisDevice(ItemKey)
        case finding(StoreFinding)
    }

    private let reader: ItemReader
    private let prefix: String?

    private var keys: KeyStore { reader.keys }
    private var storage: any RecordStorage { reader.storage }

    /// - Parameter prefix: If `nil`, the items of all prefixes are read, but not Lockbox's own.
    package init(of backend: SealedBackend, prefix: String?) {
        (reader, self.prefix) = (backend.reader, prefix)
    }

    /// Reads each item once. What cannot be read, and a store that was changed all the while, is a finding.
    ///
    /// - Parameter progress: Called after each item, anew in each attempt that does not keep others waiting.
    package func read(progress: (StoreProgress) -> Void, _ body: (Part) throws -> Void) throws {
        var duration = Duration.zero
        for attempt in 1...Self.attempts.all {
            let begin = world.uptime
            let lock = attempt > Self.attempts.unlocked && duration < .seconds(10) ? lock() : nil
            defer { lock?.release() }
            // With a lock, `progress` could write to the store, and wait for itself.
            if try isReadAtOneMoment(progress: lock == nil ? progress : { _ in }, body) { return }
            duration = world.uptime - begin
        }
        try body(.finding(.changing(storage.location(of: .keybag))))
    }

    /// How often it is begun, and how often of these others need not wait for it.
    private static var attempts: (all: Int, unlocked: Int) { (10, 3) }

    /// Keeps others from changing items. Nil if that is not possible, for whatever reason: it may still be read.
    private func lock() -> (any StorageLock)? {
        guard let keyring = try? keys.keyring(creating: false) else { return nil }
        return try? storage.lockIfSupported(Set(namespaces(keyring)))
    }

    // MARK: One attempt

    /// Reads all, and returns whether at the end they are still as they were read.
    private func isReadAtOneMoment(progress: (StoreProgress) -> Void, _ body: (Part) throws -> Void) throws
        -> Bool
    {
        guard let keyring = try keys.keyring(creating: false) else { throw keys.storeIsNotFound }
        let begin = moments(keyring)
        try body(.begin(storeID: keyring.storeID.hexadecimal))
        var states = RecordStates()
        let namespaces = try list(keyring, &states, body)
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (number, record) in namespaces.joined().enumerated() {
            try read(record, &states, body)
            progress(StoreProgress(completed: number + 1, total: total))
        }
        return try isUnchanged(since: begin, states, keyring)
    }

    private func namespaces(_ keyring: Keyring) throws -> [String] {
        let chosen = prefix.map(keyring.namespace(ofPrefix:))
        return try storage.namespaces().filter {
            chosen == nil ? keyring.owns(namespace: $0) : $0 == chosen
        }
    }

    /// Skips a prefix that cannot be listed, unless it is the only one.
    private func list(_ keyring: Keyring, _ states: inout RecordStates, _ body: (Part) throws -> Void) throws
        -> [ItemRecords]
    {
        let namespaces = try namespaces(keyring)
        if prefix != nil { return try namespaces.map { try reader.items(in: $0) } }
        return try namespaces.compactMap { namespace in
            let listed = try reader.skippingIfUnusable(
                namespace,
                unreadable: { try body(.finding($0.finding)) }
            ) { try reader.items(in: namespace) }
            if listed == nil { states.addUnlisted(namespace) }
            return listed
        }
    }

    /// Reads a record once, unless it was removed meanwhile.
    private func read(_ record: ItemRecord, _ states: inout RecordStates, _ body: (Part) throws -> Void)
        throws
    {
        var found: Record?
        do {
            found = try reader.withContents(of: record, atLeast: .max) {
                Record(bytes: Array($0.bytes), revision: $0.revision)
            }
        } catch let error as LockboxError {
            try body(.finding(reader.unreadableItem(record, error: error).finding))
            return states.add(record.name, nil)
        }
        guard let found else { return }
        states.add(record.name, found.revision)
        try open(ItemRecord(name: record.name, id: record.id, contents: .present(found)), body)
    }

    private func open(_ record: ItemRecord, _ body: (Part) throws -> Void) throws {
        let keyring = try keys.currentKeyring()
        let metadata = try reader.readableMetadata(record, keyring) { try body(.finding($0.finding)) }
        guard let metadata, !ItemKey.isReserved(prefix: metadata.key.prefix) else { return }
        // It may be locked.
        if metadata.attributes.accessibility.isThisDeviceOnly {
            return try body(.staysOnThisDevice(metadata.key))
        }
        let item: StoredItem?
        do { item = try reader.openItem(record, keyring, at: nil).content } catch let error as LockboxError {
            return try body(.finding(reader.unreadableItem(record, key: metadata.key, error: error).finding))
        }
        guard let item else { return }
        // Under newer keys, the item that is there now was read.
        let staysHere = item.attributes.accessibility.isThisDeviceOnly
        try body(staysHere ? .staysOnThisDevice(item.key) : .item(item))
    }

    // MARK: The moment

    /// Whether all items are still as they were read. If no file has come into the folders, a list of the names shows it: an item that
    /// is removed and stored again is a new file. Otherwise each record is looked at again.
    private func isUnchanged(
        since begin: [String: FolderMoment]?,
        _ read: RecordStates,
        _ keyring: Keyring
    ) throws -> Bool {
        if let begin {
            let names = try recordStates(keyring) { _ in nil }
            if names.hasSameNames(as: read), moments(keyring) == begin { return true }
        }
        return try recordStates(keyring, revision(of:)) == read
    }

    /// The moments of the folders. Nil if there are none, or if one cannot be told.
    private func moments(_ keyring: Keyring) -> [String: FolderMoment]? {
        guard let files = storage.asFiles else { return nil }
        do {
            var moments: [String: FolderMoment] = [:]
            for namespace in try namespaces(keyring) {
                guard let moment = try files.moment(of: namespace) else { return nil }
                moments[namespace] = moment
            }
            return moments
        } catch { return nil }
    }

    /// The states of all records, and which prefixes cannot be listed.
    private func recordStates(_ keyring: Keyring, _ revision: (ItemRecord) throws -> RecordRevision?) throws
        -> RecordStates
    {
        var states = RecordStates()
        for namespace in try namespaces(keyring) {
            try reader.skippingIfUnusable(namespace, unreadable: { _ in states.addUnlisted(namespace) }) {
                try reader.forEachRecord(in: namespace) { states.add($0.name, try revision($0)) }
            }
        }
        return states
    }

    /// Returns nil if the record cannot be read.
    private func revision(of record: ItemRecord) throws -> RecordRevision? {
        do {
            return try reader.withContents(of: record, atLeast: 0) { $0.revision } ?? .absent
        } catch let error as LockboxError {
            _ = try reader.unreadableItem(record, error: error)
            return nil
        }
    }
}

/// The names and revisions of records at some time: equal to those of another time if no record has changed. Sums, as there may be
/// a million.
private struct RecordStates: Equatable {
    private var count = 0
    private var names = SIMD4<UInt64>()
    private var sum = SIMD4<UInt64>()

    /// - Parameter revision: The record's revision, or nil if it cannot be read.
    mutating func add(_ record: RecordName, _ revision: RecordRevision?) {
        let name = Array(record.path.utf8)
        count += 1
        names &+= Self.hash(name)
        sum &+= Self.hash(name + withUnsafeBytes(of: (revision ?? .absent).numbers, Array.init))
    }

    /// A prefix that is listed the first time and not the last may have changed.
    mutating func addUnlisted(_ namespace: String) { add(RecordName(namespace: namespace, name: ""), nil) }

    func hasSameNames(as other: RecordStates) -> Bool { count == other.count && names == other.names }

    private static func hash(_ bytes: [UInt8]) -> SIMD4<UInt64> {
        var hash = SIMD4<UInt64>()
        bytes.withUnsafeBytes { input in
            withUnsafeMutableBytes(of: &hash) { Sodium.hash(input, into: $0) }
        }
        return hash
    }
}

extension StoreFinding {
    fileprivate static func changing(_ location: String) -> StoreFinding {
        StoreFinding(
            kind: .changing,
            location: location,
            reason: "the store was changed all the while, so an item that was moved meanwhile may be missing"
        )
    }
}
