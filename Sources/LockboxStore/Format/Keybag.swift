import LockboxCore

/// A store's random ID, which each of its records contains.
typealias StoreID = SIMD16<UInt8>

/// The store's keys, as read from its keybag: a box under the device key, with a box for each ``UnlockLevel`` inside.
/// The inner boxes authenticate everything before them, so who has only the device key cannot change a slot or a key
/// without being noticed at the next unlock.
struct Keybag: Sendable {
    static let maximumSlots = 32
    /// The seeds of the root key and the owner's.
    static let seedCount = 2
    static let maximumKeys = 256
    /// Each epoch has eight or nine keys.
    static let maximumEpochs = 24

    /// The number of times the keybag has been written.
    let generation: UInt64
    let storeID: StoreID
    /// The epoch of the keys that seal new items.
    let epoch: UInt32
    let closing: Closing
    /// The first epoch that the store has had slots from. 0 if it has none.
    let firstProtected: UInt32
    let slots: [KeybagSlot]
    /// The epoch that began with the last change or removal of a slot, if the slot was not older than the one before. 0 if there
    /// was none.
    let revoked: UInt32
    let owner: KeybagOwner
    private let signature: KeybagSignature
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
        /// The seeds of the root key and the owner's key. Empty unless everything is open.
        var seeds: [SecretKey] = []
        /// Whether everything is open.
        var isComplete: Bool { !seeds.isEmpty }
        /// For each slot the keys that authenticate its unlock keys. Empty unless everything is open.
        var authentication: [[UnlockLevel: SecretKey]] = []
    }

    /// Whether the owner's key has signed it. Verified once.
    var isSigned: Bool { signature.isValid(by: owner) }

    /// Whether its owner is the one of an identity.
    func has(identity: String) -> Bool { owner.identity == identity && owner.isOfRoot(storeID) && isSigned }

    /// Whether the owner of a key that is known, or one who follows, has signed it.
    func follows(_ key: [UInt8]) -> Bool { owner.follows(key, storeID) && isSigned }

    /// Whether an attacker with the secret that was revoked last, and a copy of that time, can forge a keybag for the slot.
    func isOlderThanRevocation(_ slot: KeybagSlot) -> Bool { slot.since < revoked }

    var passcodeSlot: KeybagSlot? { slots.first { $0.kind == .passcode } }

    /// Epochs whose keys are in the keybag. Items may still be sealed with older ones.
    var epochs: Set<UInt32> { Set(keyIDs.lazy.filter { $0.role != .names }.map(\.epoch)) }

    var isRotating: Bool { epochs.count > 1 }

    var isFull: Bool { epochs.count >= Self.maximumEpochs }

    /// Whether it has the keys of an epoch that has not begun.
    var isPrepared: Bool { epochs.contains { $0 > epoch } }

    /// Whether its epoch has begun, and the ones before are not closed yet.
    var isOpenBefore: Bool { closing.epoch + 1 < epoch }

    // MARK: Opening

    /// Returns the unlock keys that the slot's keys open. In a store without slots, they need no unlock.
    func unlockKeys(with keys: SlotKeys?) throws -> [UnlockLevel: SecretKey] {
        if let unlockKey { return [.unlocked: unlockKey] }
        guard let keys, let slot = slots.first(where: { $0.id == keys.slot }) else { return [:] }
        // An attacker with the device key can list a slot without its grant of level 1.
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
        // Everybody who has the device key can sign one without slots.
        if !slots.isEmpty, !isSigned { throw RecordError.notAuthentic }
        try open(.unlocked, key) { reader in
            // By itself: it is kept after a lock, which wipes the others.
            contents.unlockKeys[.afterFirstUnlock] = try Self.readKeys(1, &reader)[0]
            contents.seeds = try Self.readKeys(Self.seedCount, &reader)
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
        try self.init(header, UnsafeRawBufferPointer(record), UnsafeRawBufferPointer(plaintext), key)
    }

    private init(
        _ header: KeybagHeader,
        _ record: UnsafeRawBufferPointer,
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
        guard let closing = Closing(&reader), closing.epoch < epoch else {
            throw RecordError.malformed("its header is not well-formed")
        }
        keyIDs = try Self.readKeyIDs(keyCount, &reader)
        let openIDs = keyIDs.filter { $0.role.level == nil }
        openKeys = zip(openIDs, try Self.readKeys(openIDs.count, &reader)).map { ($0, $1) }
        slots = try (0..<slotCount).map { _ in try KeybagSlot(&reader) }
        guard let revoked = reader.read(UInt32.self) else {
            throw RecordError.malformed("its header is not well-formed")
        }
        owner = try KeybagOwner(&reader)
        guard Set(slots.map(\.id)).count == slots.count, slots.filter({ $0.kind == .passcode }).count <= 1
        else {
            throw RecordError.malformed("it contains the same slot twice")
        }
        vaults = try Self.readVaults(Self.vaultLengths(keyIDs, slots), &reader, record, plaintext)
        guard reader.readBytes(SigningKey.signatureLength) != nil, reader.remaining == 0 else {
            throw RecordError.malformed("its length does not match its contents")
        }
        signature = KeybagSignature(record.part(..<KeybagHeader.length), plaintext)
        self.revoked = revoked
        (generation, storeID) = (header.generation, header.storeID)
        (self.epoch, self.closing, self.deviceKey) = (epoch, closing, deviceKey)
    }

    private static func readKeyIDs(_ count: UInt16, _ reader: inout ByteReader) throws -> [Keyring.KeyID] {
        let ids = try (0..<count).map { _ in try readKeyID(&reader) }
        guard Set(ids).count == ids.count else {
            throw RecordError.malformed("it contains the same key twice")
        }
        guard ids.count(where: { $0.role == .names }) == 1 else {
            throw RecordError.malformed("it has not exactly one key for file names")
        }
        return ids
    }

    private static func readVaults(
        _ lengths: [(level: UnlockLevel, Int)],
        _ reader: inout ByteReader,
        _ record: UnsafeRawBufferPointer,
        _ plaintext: UnsafeRawBufferPointer
    ) throws -> [UnlockLevel: Vault] {
        var vaults: [UnlockLevel: Vault] = [:]
        for (level, length) in lengths {
            let data = KeybagHeader.digest(KeybagHeader.bytes(of: record), plaintext[..<reader.offset])
            guard let box = reader.readBytes(length) else {
                throw RecordError.malformed("its length does not match its contents")
            }
            vaults[level] = Vault(box: [UInt8](box), data: data)
        }
        return vaults
    }

    /// In the order in which they are stored.
    static func vaultLengths(_ keys: [Keyring.KeyID], _ slots: [KeybagSlot]) -> [(level: UnlockLevel, Int)] {
        func count(_ level: UnlockLevel) -> Int { keys.filter { $0.role.level == level }.count }
        let all = 1 + seedCount + slots.reduce(0) { $0 + $1.grants.count } + count(.unlocked)
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
        + Keybag.maximumSlots * (KeybagSlot.maximumLength + 2 * SecretKey.length)
        + 4 + KeybagOwner.maximumLength
        + 2 * SealedBox.overhead + (1 + Keybag.seedCount) * SecretKey.length + SigningKey.signatureLength

    /// Epoch, number of slots, number of keys, unlock key, closing.
    static let fixedLength = 8 + SecretKey.length + Closing.length
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
        writeCheck(of: deviceKey, to: record)
        let key = boxKey(deviceKey, record)
        SealedBox.seal(
            record.part(length...),
            authenticating: bytes(of: UnsafeRawBufferPointer(record)),
            with: key
        )
    }

    /// Fills in the device check, which is signed too.
    static func writeCheck(of deviceKey: SecretKey, to record: UnsafeMutableRawBufferPointer) {
        record.part(checkOffset..<length).copyBytes(from: check(deviceKey))
    }

    /// Opens the box in place. Returns nil if it is not authentic; with another device key it is then unchanged.
    static func openBox(_ record: UnsafeMutableRawBufferPointer, _ deviceKey: SecretKey)
        -> UnsafeMutableRawBufferPointer?
    {
        let key = boxKey(deviceKey, record)
        return SealedBox.open(
            record.part(length...),
            authenticating: bytes(of: UnsafeRawBufferPointer(record)),
            with: key
        )
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
    static func bytes(of record: UnsafeRawBufferPointer) -> [UInt8] { Array(record[..<checkOffset]) }

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
