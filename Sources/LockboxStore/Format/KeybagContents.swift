import LockboxCore

/// The source of a keybag's bytes: all its keys, open.
struct KeybagContents {
    var generation: UInt64
    let storeID: StoreID
    var epoch: UInt32
    private(set) var closing: Closing
    /// See ``Keybag/firstProtected``.
    private(set) var firstProtected: UInt32
    var slots: [Slot]
    var keys: [Keyring.Entry]
    var unlockKeys: [UnlockLevel: SecretKey]
    /// See ``Keybag/revoked``.
    private(set) var revoked: UInt32
    private var root: SigningKey
    private var ownerKey: SigningKey
    private(set) var owner: KeybagOwner

    /// A slot, and the keys that authenticate what is sealed to it.
    struct Slot {
        fileprivate(set) var slot: KeybagSlot
        let authentication: [UnlockLevel: SecretKey]
    }

    /// A new store.
    init(_ storeID: StoreID = .random()) throws {
        generation = 1
        self.storeID = storeID
        epoch = 1
        closing = .none
        firstProtected = 0
        slots = []
        unlockKeys = try Self.newUnlockKeys()
        revoked = 0
        (root, ownerKey) = (try .random(), try .random())
        owner = try KeybagOwner(
            key: ownerKey.publicKey,
            root: OwnerCertificate(ownerKey.publicKey, by: root, storeID),
            former: []
        )
        keys = try Self.newKeys(epoch: 1, hasPasscode: false) + [(.init(.names, 1), .random())]
    }

    /// The next version of a keybag that is completely open, or nil if it is not.
    init?(after keybag: Keybag, unlockKeys: [UnlockLevel: SecretKey]) throws {
        let contents = try keybag.open(unlockKeys)
        guard contents.unlockKeys.count == UnlockLevel.allCases.count else { return nil }
        generation = try Self.generation(after: keybag.generation)
        storeID = keybag.storeID
        epoch = keybag.epoch
        closing = keybag.closing
        firstProtected = keybag.firstProtected
        slots = zip(keybag.slots, contents.authentication).map { Slot(slot: $0, authentication: $1) }
        keys = contents.keys
        self.unlockKeys = contents.unlockKeys
        revoked = keybag.revoked
        (root, ownerKey) = (try SigningKey(seed: contents.seeds[0]), try SigningKey(seed: contents.seeds[1]))
        owner = keybag.owner
        guard owner.root.issuer == root.publicKey, owner.key == ownerKey.publicKey else {
            throw RecordError.notAuthentic
        }
    }

    /// A new epoch needs two generations. An attacker with the device key can write one so high that there are none.
    static func generation(after last: UInt64) throws -> UInt64 {
        if last > UInt64.max - 2 { throw RecordError.malformed("its generation is the highest there is") }
        return last + 1
    }

    var hasPasscode: Bool { slots.contains { $0.slot.kind == .passcode } }

    /// Makes new keys for every class and new unlock keys: nothing that was copied before opens what is sealed from now
    /// on. Items that are sealed with older keys can still be opened.
    ///
    /// - Parameter revokes: Whether a slot is gone or changed, whose owner must not be followed.
    mutating func beginEpoch(revokes: Bool = false) throws {
        // An epoch that was prepared, but never began, may have left keys.
        let highest = keys.map(\.id.epoch).reduce(epoch, max)
        let (next, overflow) = highest.addingReportingOverflow(1)
        if overflow { throw RecordError.malformed("its epoch is the highest there is") }
        epoch = next
        if !hasPasscode { keys.removeAll { $0.id.role == .classKey(.whenPasscodeSetThisDeviceOnly) } }
        keys += try Self.newKeys(epoch: epoch, hasPasscode: hasPasscode)
        if keys.count > Keybag.maximumKeys {
            throw LockboxError.slotRefused(
                reason: "items still use keys of too many earlier changes; complete a rotation first"
            )
        }
        if slots.isEmpty {
            firstProtected = 0
        } else if firstProtected == 0 {
            // Nothing authenticates the numbers of a keybag without slots.
            guard generation < 1 << 47, epoch < 1 << 30 else {
                throw RecordError.malformed("its generation and epoch are higher than a store's get")
            }
            firstProtected = epoch
        }
        // Everybody who had the device key has the keys from before the first slot.
        try renewOwner(isFirst: firstProtected == epoch)
        revoked = slots.isEmpty ? 0 : revokes ? epoch : revoked
        for index in slots.indices where slots[index].slot.since == 0 { slots[index].slot.since = epoch }
        unlockKeys = try Self.newUnlockKeys()
    }

    /// Makes the epoch's own key, which follows the one before unless it is the first of a root key.
    private mutating func renewOwner(isFirst: Bool) throws {
        let next = try SigningKey.random()
        if isFirst { root = try .random() }
        let former = try owner.former + [OwnerCertificate(next.publicKey, by: ownerKey, storeID)]
        owner = try KeybagOwner(
            key: next.publicKey,
            root: OwnerCertificate(next.publicKey, by: root, storeID),
            former: isFirst ? [] : former.suffix(KeybagOwner.maximumFormer)
        )
        ownerKey = next
    }

    /// Closes the older epochs, and removes the keys of those that no item needs. The keys of an epoch that was prepared stay,
    /// since its number must not be used again for others.
    ///
    /// - Parameter manifest: The first record of the ``Manifest``.
    mutating func closeOlderEpochs(listing manifest: RecordHash?, needing isNeeded: (UInt32) -> Bool) {
        closing = Closing(epoch: epoch - 1, manifest: manifest)
        keys.removeAll { key in
            key.id.role != .names && key.id.epoch < epoch && !isNeeded(key.id.epoch)
        }
    }

    /// One key for metadata, and one for each class. `whenPasscodeSetThisDeviceOnly` has one only if there is a passcode.
    private static func newKeys(epoch: UInt32, hasPasscode: Bool) throws -> [Keyring.Entry] {
        let classes = Accessibility.allCases.filter { hasPasscode || $0 != .whenPasscodeSetThisDeviceOnly }
        let roles = classes.map(KeyRole.classKey) + [.metadata]
        return zip(roles, try SecretKey.keys(roles.count, Sodium.fillRandom)).map { (.init($0, epoch), $1) }
    }

    private static func newUnlockKeys() throws -> [UnlockLevel: SecretKey] {
        [.unlocked: try .random(), .afterFirstUnlock: try .random()]
    }
}

// MARK: - The record

extension KeybagContents {
    /// Returns the keybag's record.
    func encoded(deviceKey: SecretKey) throws -> [UInt8] {
        try record(listing: slots.map(granted), deviceKey: deviceKey)
    }

    /// - Parameter slots: Those of the contents, with what is sealed to them.
    func record(listing slots: [KeybagSlot], deviceKey: SecretKey) throws -> [UInt8] {
        let ids = keys.map(\.id)
        let vaults = Keybag.vaultLengths(ids, slots)
        let openCount = keys.count { $0.id.role.level == nil }
        let length =
            KeybagHeader.length + SealedBox.overhead + KeybagHeader.fixedLength
            + ids.count * KeybagHeader.keyIDLength + openCount * SecretKey.length
            + slots.reduce(0) { $0 + $1.length } + 4 + owner.length + vaults.reduce(0) { $0 + $1.1 }
            + SigningKey.signatureLength
        var record = [UInt8](repeating: 0, count: length)
        try record.withUnsafeMutableBytes { record in
            var writer = ByteWriter(record)
            KeybagHeader(generation: generation, storeID: storeID).write(to: &writer)
            let start = KeybagHeader.length + SealedBox.prefixLength
            writer.skip(start - writer.offset)
            writeParts(listing: slots, to: &writer)
            for (level, length) in vaults {
                let data = KeybagHeader.digest(
                    KeybagHeader.bytes(of: UnsafeRawBufferPointer(record)),
                    UnsafeRawBufferPointer(record)[start..<writer.offset]
                )
                seal(level, into: record.part(writer.offset..<(writer.offset + length)), data)
                writer.skip(length)
            }
            KeybagHeader.writeCheck(of: deviceKey, to: record)
            try writer.write(signature(of: UnsafeRawBufferPointer(record), from: start, to: writer.offset))
            KeybagHeader.seal(record, deviceKey)
        }
        return record
    }

    /// Writes what the device key opens, but for the vaults and the signature.
    private func writeParts(listing slots: [KeybagSlot], to writer: inout ByteWriter) {
        writer.write(epoch)
        writer.write(UInt16(slots.count))
        writer.write(UInt16(keys.count))
        if slots.isEmpty {
            writer.write(unlockKeys[.unlocked]!)
        } else {
            writer.write(firstProtected)
            writer.skip(SecretKey.length - 4)
        }
        closing.write(to: &writer)
        for (id, _) in keys { id.write(to: &writer) }
        for (id, key) in keys where id.role.level == nil { writer.write(key) }
        for slot in slots { slot.write(to: &writer) }
        writer.write(revoked)
        owner.write(to: &writer)
    }

    private func signature(of record: UnsafeRawBufferPointer, from start: Int, to end: Int) throws -> [UInt8]
    {
        let header = record.part(..<KeybagHeader.length)
        return try ownerKey.sign(KeybagSignature.message(header, record.part(start..<end)))
    }

    /// Seals the current unlock keys to a slot.
    private func granted(_ slot: Slot) throws -> KeybagSlot {
        var granted = slot.slot
        granted.grants = try granted.grants.map { grant in
            try KeybagSlot.grant(
                unlockKeys[grant.level]!,
                grant.level,
                to: grant.publicKey,
                authentication: slot.authentication[grant.level]!,
                slot: slot.slot.id,
                store: storeID
            )
        }
        return granted
    }

    private func seal(_ level: UnlockLevel, into box: UnsafeMutableRawBufferPointer, _ data: [UInt8]) {
        var writer = ByteWriter(box.part(SealedBox.prefixLength...))
        if level == .unlocked {
            writer.write(unlockKeys[.afterFirstUnlock]!)
            for key in [root, ownerKey] { writer.write(key.seed) }
            for slot in slots {
                for grant in slot.slot.grants { writer.write(slot.authentication[grant.level]!) }
            }
        }
        for (id, key) in keys where id.role.level == level { writer.write(key) }
        SealedBox.seal(box, authenticating: data, with: level.boxKey(unlockKeys[level]!, storeID))
    }
}

extension Keyring.KeyID {
    fileprivate func write(to writer: inout ByteWriter) {
        writer.write(role.number)
        writer.write(role.level?.rawValue ?? 0)
        writer.skip(2)
        writer.write(epoch)
    }
}

/// The purpose of a key in the keybag. The numbers are stored.
enum KeyRole: Hashable, Sendable {
    case classKey(Accessibility)
    /// Seals the metadata of items of all classes, so that they can be listed and removed while locked.
    case metadata
    /// Derives file names from prefixes and keys. Never changes, because the names would change too.
    case names

    var number: UInt8 {
        switch self {
        case .classKey(let accessibility): accessibility.number
        case .metadata: 8
        case .names: 9
        }
    }

    /// The unlock that opens the key, if the store has a slot. Nil: the device key alone opens it.
    var level: UnlockLevel? {
        switch self {
        case .metadata, .names, .classKey(.always), .classKey(.alwaysThisDeviceOnly): nil
        case .classKey(.afterFirstUnlock), .classKey(.afterFirstUnlockThisDeviceOnly): .afterFirstUnlock
        case .classKey: .unlocked
        }
    }

    private static let all = Accessibility.allCases.map(KeyRole.classKey) + [.metadata, .names]

    init?(number: UInt8) {
        guard let role = Self.all.first(where: { $0.number == number }) else { return nil }
        self = role
    }
}

/// The two levels of unlocking. Each has a random unlock key that seals its class keys. The numbers are stored.
enum UnlockLevel: UInt8, Sendable, CaseIterable {
    /// All classes.
    case unlocked = 1
    /// The `afterFirstUnlock` classes only: what is left after a lock, and what a service opens without a person.
    case afterFirstUnlock = 2
}

/// `LBXD`, version, suite, the number of keys, a zero byte, the keys: one, or, while a keybag is replaced, the next one
/// and the one before.
enum DeviceKeyRecord {
    static let maximumLength = headerLength + maximumKeys * SecretKey.length

    private static let headerLength = 8
    private static let maximumKeys = 2

    static func encoded(_ keys: [SecretKey]) -> [UInt8] {
        var record = [UInt8](repeating: 0, count: headerLength + keys.count * SecretKey.length)
        record.withUnsafeMutableBytes { bytes in
            var writer = ByteWriter(bytes)
            RecordKind.deviceKey.write(to: &writer)
            writer.write(UInt8(keys.count))
            writer.skip(1)
            for key in keys { writer.write(key) }
        }
        return record
    }

    static func decode(_ record: UnsafeRawBufferPointer) throws -> [SecretKey] {
        var reader = ByteReader(record)
        try RecordKind.deviceKey.check(&reader)
        guard let count = reader.read(UInt8.self), (1...maximumKeys).contains(Int(count)),
            reader.skipZeros(1),
            reader.remaining == Int(count) * SecretKey.length
        else { throw RecordError.malformed("its length is wrong") }
        return try (0..<count).map { _ in
            try SecretKey { $0.copyMemory(from: reader.readBytes(SecretKey.length)!) }
        }
    }
}
