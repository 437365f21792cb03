import LockboxCore

/// A store's random ID, which each of its records contains.
typealias StoreID = SIMD16<UInt8>

/// The store's keys, as read from its keybag: a box under the device key, with a box for each ``UnlockLevel`` inside.
/// The inner boxes authenticate everything before them, so who has only the device key cannot change a slot or a key
/// without being noticed at the next unlock.
struct Keybag: Sendable {
    static let maximumSlots = 32
    /// See ``Contents/lineage``.
    static let lineageCount = 4
    static let maximumKeys = 256
    /// Of eight or nine keys each.
    static let maximumEpochs = 24

    /// The number of times the keybag has been written.
    let generation: UInt64
    let storeID: StoreID
    /// The epoch of the keys that seal new items.
    let epoch: UInt32
    /// The last epoch whose keys open nothing but ``leftovers``. 0 if there is none.
    let retired: UInt32
    let leftovers: [Leftover]
    /// The first epoch that the store has had slots from. 0 if it has none.
    let firstProtected: UInt32
    let slots: [KeybagSlot]
    /// All keys of the keybag, open or not.
    let keyIDs: [Keyring.KeyID]
    /// The key that the keybag was opened with.
    let deviceKey: SecretKey

    /// The keys that the device key alone opens.
    private let openKeys: [Keyring.Entry]
    /// In a store without slots.
    private let unlockKey: SecretKey?
    private let vaults: [UnlockLevel: Vault]

    /// A sealed box inside the keybag.
    private struct Vault {
        let box: [UInt8]
        /// A hash of everything before the box.
        let data: [UInt8]
    }

    /// The keys that an unlock has opened.
    struct Contents {
        var unlockKeys: [UnlockLevel: SecretKey]
        var keys: [Keyring.Entry]
        /// Keys that tell whoever has unlocked the store before whether a keybag without slots comes from somebody who could unlock
        /// it, too. The first one is made with the first slot, and again whenever the store gets slots again; the others are the
        /// ones before. Empty unless everything is open.
        var lineage: [SecretKey] = []
        /// For each slot the keys that authenticate its unlock keys. Empty unless everything is open.
        var authentication: [[UnlockLevel: SecretKey]] = []
    }

    var passcodeSlot: KeybagSlot? { slots.first { $0.kind == .passcode } }

    /// Epochs whose keys are in the keybag. Items may still be sealed with older ones.
    var epochs: Set<UInt32> { Set(keyIDs.lazy.filter { $0.role != .names }.map(\.epoch)) }

    var isRotating: Bool { epochs.count > 1 }

    var isFull: Bool { epochs.count >= Self.maximumEpochs }

    /// Whether it has the keys of an epoch that has not begun.
    var isPrepared: Bool { epochs.contains { $0 > epoch } }

    // MARK: Opening

    /// Returns the unlock keys that the slot's keys open. In a store without slots, they need no unlock.
    func unlockKeys(with keys: SlotKeys?) throws -> [UnlockLevel: SecretKey] {
        if let unlockKey { return [.unlocked: unlockKey] }
        guard let keys, let slot = slots.first(where: { $0.id == keys.slot }) else { return [:] }
        // Whoever has the device key can list a slot without its grant of level 1.
        if keys.keys[.unlocked] != nil, !slot.opensAllClasses { throw RecordError.notAuthentic }
        for level in [UnlockLevel.unlocked, .afterFirstUnlock] {
            let key = try slot.unlockKey(level, with: keys, store: storeID)
            if let key { return [level: key] }
        }
        return [:]
    }

    /// Opens all keys that the given unlock keys open.
    func open(_ unlockKeys: [UnlockLevel: SecretKey]) throws -> Contents {
        var contents = Contents(unlockKeys: unlockKeys, keys: openKeys)
        if let key = unlockKeys[.unlocked] { try openAll(key, &contents) }
        if let key = contents.unlockKeys[.afterFirstUnlock] {
            try open(.afterFirstUnlock, key) { try readKeys(of: .afterFirstUnlock, &$0, &contents) }
        }
        return contents
    }

    private func openAll(_ key: SecretKey, _ contents: inout Contents) throws {
        try open(.unlocked, key) { reader in
            // By itself: it is kept after a lock, which wipes the others.
            contents.unlockKeys[.afterFirstUnlock] = try Self.readKeys(1, &reader)[0]
            contents.lineage = try Self.readKeys(Self.lineageCount, &reader)
            var authentication = try Self.readKeys(slots.reduce(0) { $0 + $1.grants.count }, &reader)[...]
            contents.authentication = slots.map { slot in
                slot.grants.reduce(into: [:]) { $0[$1.level] = authentication.removeFirst() }
            }
            try readKeys(of: .unlocked, &reader, &contents)
        }
    }

    private func open(_ level: UnlockLevel, _ key: SecretKey, _ body: (inout ByteReader) throws -> Void)
        throws
    {
        guard let vault = vaults[level] else { throw RecordError.notAuthentic }
        var box = vault.box
        try box.withUnsafeMutableBytes { box in
            let boxKey = level.boxKey(key, storeID)
            guard let plaintext = SealedBox.open(box, authenticating: vault.data, with: boxKey) else {
                throw RecordError.notAuthentic
            }
            defer { Sodium.wipe(plaintext) }
            var reader = ByteReader(UnsafeRawBufferPointer(plaintext))
            try body(&reader)
            guard reader.remaining == 0 else {
                throw RecordError.malformed("it contains keys that it does not list")
            }
        }
    }

    private func readKeys(of level: UnlockLevel, _ reader: inout ByteReader, _ contents: inout Contents)
        throws
    {
        let ids = keyIDs.filter { $0.role.level == level }
        contents.keys += zip(ids, try Self.readKeys(ids.count, &reader)).map { ($0, $1) }
    }

    fileprivate static func readKeys(_ count: Int, _ reader: inout ByteReader) throws -> [SecretKey] {
        guard let bytes = reader.readBytes(count * SecretKey.length) else {
            throw RecordError.malformed("it has fewer keys than it lists")
        }
        return try SecretKey.keys(count) { $0.copyMemory(from: bytes) }
    }
}

extension UnlockLevel {
    /// The key of the level's box in a keybag.
    func boxKey(_ unlockKey: SecretKey, _ store: StoreID) -> BoxKey {
        let personal = self == .unlocked ? Personal.unlocked : .afterFirstUnlock
        return BoxKey(key: unlockKey, personal: personal, context: store.bytes)
    }
}

// MARK: - Reading the record

extension Keybag {
    /// Opens a record, in place, with one of the given device keys.
    init(_ record: UnsafeMutableRawBufferPointer, deviceKeys: [SecretKey]) throws {
        let header = try KeybagHeader(UnsafeRawBufferPointer(record))
        let (plaintext, key) = try Self.open(record, deviceKeys)
        defer { Sodium.wipe(plaintext) }
        try self.init(header, KeybagHeader.bytes(of: record), UnsafeRawBufferPointer(plaintext), key)
    }

    private init(
        _ header: KeybagHeader,
        _ headerBytes: [UInt8],
        _ plaintext: UnsafeRawBufferPointer,
        _ deviceKey: SecretKey
    ) throws {
        var reader = ByteReader(plaintext)
        guard let epoch = reader.read(UInt32.self), let slotCount = reader.read(UInt16.self),
            slotCount <= Self.maximumSlots, let keyCount = reader.read(UInt16.self),
            keyCount <= Self.maximumKeys
        else { throw RecordError.malformed("its header is not well-formed") }
        unlockKey = slotCount == 0 ? try Self.readKeys(1, &reader)[0] : nil
        firstProtected = slotCount == 0 ? 0 : try Self.readFirstProtected(&reader)
        guard let retired = reader.read(UInt32.self), retired < epoch,
            let leftoverCount = reader.read(UInt32.self), leftoverCount <= Leftover.maximumCount
        else { throw RecordError.malformed("its header is not well-formed") }
        keyIDs = try (0..<keyCount).map { _ in try Self.readKeyID(&reader) }
        guard Set(keyIDs).count == keyIDs.count else {
            throw RecordError.malformed("it contains the same key twice")
        }
        guard keyIDs.count(where: { $0.role == .names }) == 1 else {
            throw RecordError.malformed("it has not exactly one key for file names")
        }
        let openIDs = keyIDs.filter { $0.role.level == nil }
        openKeys = zip(openIDs, try Self.readKeys(openIDs.count, &reader)).map { ($0, $1) }
        leftovers = try (0..<leftoverCount).map { _ in try Leftover(&reader) }
        slots = try (0..<slotCount).map { _ in try KeybagSlot(&reader) }
        guard Set(slots.map(\.id)).count == slots.count, slots.filter({ $0.kind == .passcode }).count <= 1
        else {
            throw RecordError.malformed("it contains the same slot twice")
        }
        var vaults: [UnlockLevel: Vault] = [:]
        for (level, length) in Self.vaultLengths(keyIDs, slots) {
            let data = KeybagHeader.digest(headerBytes, plaintext[..<reader.offset])
            guard let box = reader.readBytes(length) else {
                throw RecordError.malformed("its length does not match its contents")
            }
            vaults[level] = Vault(box: [UInt8](box), data: data)
        }
        guard reader.remaining == 0 else {
            throw RecordError.malformed("its length does not match its contents")
        }
        (generation, storeID) = (header.generation, header.storeID)
        (self.epoch, self.retired, self.vaults, self.deviceKey) = (epoch, retired, vaults, deviceKey)
    }

    /// In the order in which they are stored.
    static func vaultLengths(_ keys: [Keyring.KeyID], _ slots: [KeybagSlot]) -> [(level: UnlockLevel, Int)] {
        func count(_ level: UnlockLevel) -> Int { keys.filter { $0.role.level == level }.count }
        let all = 1 + lineageCount + slots.reduce(0) { $0 + $1.grants.count } + count(.unlocked)
        return [
            (.afterFirstUnlock, SealedBox.overhead + SecretKey.length * count(.afterFirstUnlock)),
            (.unlocked, SealedBox.overhead + SecretKey.length * all),
        ]
    }

    /// In the place that the unlock key has in a store without slots.
    private static func readFirstProtected(_ reader: inout ByteReader) throws(RecordError) -> UInt32 {
        guard let epoch = reader.read(UInt32.self), epoch > 0, reader.skipZeros(SecretKey.length - 4) else {
            throw .malformed("it contains both slots and an unprotected unlock key")
        }
        return epoch
    }

    private static func readKeyID(_ reader: inout ByteReader) throws(RecordError) -> Keyring.KeyID {
        guard let role = reader.read(UInt8.self).flatMap(KeyRole.init(number:)),
            reader.read(UInt8.self) == role.level?.rawValue ?? 0, reader.skipZeros(2),
            let epoch = reader.read(UInt32.self)
        else { throw .malformed("one of its keys is not well-formed") }
        return Keyring.KeyID(role, epoch)
    }

    /// The device check tells another store's device key from damage: with another key, neither the check nor the box
    /// is right. The box does not authenticate the check, so damage makes only one of them wrong.
    private static func open(_ record: UnsafeMutableRawBufferPointer, _ deviceKeys: [SecretKey])
        throws(RecordError)
        -> (UnsafeMutableRawBufferPointer, SecretKey)
    {
        let checked = deviceKeys.first { KeybagHeader.check(record, isOf: $0) }
        guard let checked else {
            let opens = deviceKeys.contains { KeybagHeader.openBox(record, $0) != nil }
            throw opens ? .notAuthentic : .wrongDeviceKey
        }
        guard let plaintext = KeybagHeader.openBox(record, checked) else { throw .notAuthentic }
        return (plaintext, checked)
    }
}

/// A keybag's first 64 bytes, which are not encrypted, and the box under the device key that follows them.
struct KeybagHeader {
    static let length = 64
    static let maximumRecordLength =
        length + SealedBox.overhead + fixedLength + Keybag.maximumKeys * (keyIDLength + SecretKey.length)
        + Leftover.maximumCount * Leftover.length
        + Keybag.maximumSlots * (KeybagSlot.maximumLength + 2 * SecretKey.length)
        + 2 * SealedBox.overhead + (1 + Keybag.lineageCount) * SecretKey.length

    /// Epoch, number of slots, number of keys, unlock key, last retired epoch, number of leftovers.
    static let fixedLength = 8 + SecretKey.length + 8
    static let keyIDLength = 8

    private static let checkOffset = 32

    let generation: UInt64
    let storeID: StoreID

    func write(to writer: inout ByteWriter) {
        RecordKind.keybag.write(to: &writer)
        writer.skip(2)
        writer.write(generation)
        writer.write(storeID)
    }
}

extension KeybagHeader {
    init(_ record: UnsafeRawBufferPointer) throws(RecordError) {
        var reader = ByteReader(record)
        try RecordKind.keybag.check(&reader)
        guard reader.skipZeros(2), let generation = reader.read(UInt64.self),
            let storeID = reader.readID()
        else { throw .malformed("its header is not well-formed") }
        guard record.count >= Self.length + SealedBox.overhead + Self.fixedLength,
            record.count <= Self.maximumRecordLength
        else { throw .malformed("its length of \(record.count) bytes is impossible") }
        self.init(generation: generation, storeID: storeID)
    }

    // MARK: The box

    /// Seals, in place, a record whose header and plaintext are complete, and fills in the device check.
    static func seal(_ record: UnsafeMutableRawBufferPointer, _ deviceKey: SecretKey) {
        record.part(checkOffset..<length).copyBytes(from: check(deviceKey))
        let key = boxKey(deviceKey, record)
        SealedBox.seal(record.part(length...), authenticating: bytes(of: record), with: key)
    }

    /// Opens the box in place. Returns nil if it is not authentic; with another device key it is then unchanged.
    static func openBox(_ record: UnsafeMutableRawBufferPointer, _ deviceKey: SecretKey)
        -> UnsafeMutableRawBufferPointer?
    {
        let key = boxKey(deviceKey, record)
        return SealedBox.open(record.part(length...), authenticating: bytes(of: record), with: key)
    }

    /// The context is the store ID.
    private static func boxKey(_ deviceKey: SecretKey, _ record: UnsafeMutableRawBufferPointer) -> BoxKey {
        BoxKey(key: deviceKey, personal: .keybag, context: Array(record[16..<32]))
    }

    static func check(_ record: UnsafeMutableRawBufferPointer, isOf deviceKey: SecretKey) -> Bool {
        check(deviceKey).withUnsafeBytes {
            Sodium.isEqual(UnsafeRawBufferPointer(record.part(checkOffset..<length)), $0)
        }
    }

    private static func check(_ deviceKey: SecretKey) -> [UInt8] {
        Sodium.hash(of: [], key: deviceKey, personal: .deviceCheck)
    }

    /// The bytes that the box authenticates: everything before the device check.
    static func bytes(of record: UnsafeMutableRawBufferPointer) -> [UInt8] { Array(record[..<checkOffset]) }

    /// The additional data of an inner box: a hash of the header and of all plaintext before it.
    static func digest(_ header: [UInt8], _ plaintext: Slice<UnsafeRawBufferPointer>) -> [UInt8] {
        var input = header
        // Growing the array later would leave copies.
        input.reserveCapacity(header.count + plaintext.count)
        input += plaintext
        defer { Sodium.wipe(&input) }
        return Sodium.hash(of: input)
    }
}
