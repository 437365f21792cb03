import LockboxCore
import LockboxPlatform
import LockboxSodium

/// A slot of the keybag: one way to unlock the store.
struct KeybagSlot: Sendable {
    /// Random.
    typealias ID = SIMD16<UInt8>

    static let saltLength = 32
    static let maximumLabelLength = 256
    static let maximumParametersLength = 2048

    let id: ID
    let kind: SlotKind
    let label: String
    let created: Date
    let salt: [UInt8]
    let parameters: [UInt8]
    /// `afterFirstUnlock`, and in a slot that opens everything also `unlocked`.
    let grants: [Grant]

    /// An unlock key, sealed to the slot.
    struct Grant: Sendable {
        static let boxLength = SealedBox.overhead + KeyPair.sealOverhead + SecretKey.length
        static let length = KeyPair.publicKeyLength + boxLength

        let level: UnlockLevel
        let publicKey: [UInt8]
        let box: [UInt8]
    }

    static func levels(opensAllClasses: Bool) -> [UnlockLevel] {
        opensAllClasses ? [.afterFirstUnlock, .unlocked] : [.afterFirstUnlock]
    }

    func with(_ grants: [Grant]) -> KeybagSlot {
        KeybagSlot(
            id: id,
            kind: kind,
            label: label,
            created: created,
            salt: salt,
            parameters: parameters,
            grants: grants
        )
    }

    var opensAllClasses: Bool { grants.contains { $0.level == .unlocked } }

    /// Whether these are the slot's keys: a wrong secret gives others.
    func fits(_ keys: SlotKeys) throws -> Bool {
        try keys.slot == id
            && grants.allSatisfy { grant in
                guard let pair = try keys.pair(grant.level) else { return true }  // wiped by a lock
                return pair.publicKey == grant.publicKey
            }
    }
}

// MARK: - Unlock keys

extension KeybagSlot {
    /// Seals an unlock key: to the slot's public key, so that only the slot's secret opens it; and in a box under the
    /// authentication key, so that only a writer who could open the store can have made it.
    static func grant(
        _ unlockKey: SecretKey,
        _ level: UnlockLevel,
        to publicKey: [UInt8],
        authentication: SecretKey,
        slot: ID,
        store: StoreID
    ) throws -> Grant {
        guard let sealed = KeyPair.seal(unlockKey, to: publicKey) else { throw RecordError.notAuthentic }
        var box = [UInt8](repeating: 0, count: Grant.boxLength)
        box.replaceSubrange(SealedBox.prefixLength..<(SealedBox.prefixLength + sealed.count), with: sealed)
        box.withUnsafeMutableBytes { box in
            withBinding(level, slot, store) { data, context in
                SealedBox.seal(
                    box,
                    authenticating: data,
                    context: context,
                    key: authentication,
                    personal: .grant
                )
            }
        }
        return Grant(level: level, publicKey: publicKey, box: box)
    }

    /// Returns a level's unlock key, or nil if the slot or its keys do not open that level.
    func unlockKey(_ level: UnlockLevel, with keys: SlotKeys, store: StoreID) throws -> SecretKey? {
        guard keys.slot == id, let grant = grants.first(where: { $0.level == level }),
            let pair = try keys.pair(level), let authentication = try keys.authentication(level)
        else { return nil }
        var box = grant.box
        return try box.withUnsafeMutableBytes { box in
            let sealed = Self.withBinding(level, id, store) { data, context in
                SealedBox.open(
                    box,
                    authenticating: data,
                    context: context,
                    key: authentication,
                    personal: .grant
                )
            }
            guard let sealed, let key = try pair.open(UnsafeRawBufferPointer(sealed)) else {
                throw RecordError.notAuthentic
            }
            return key
        }
    }

    private static func withBinding<Result>(
        _ level: UnlockLevel,
        _ slot: ID,
        _ store: StoreID,
        _ body: (_ data: UnsafeRawBufferPointer, _ context: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let context = withUnsafeBytes(of: store, Array.init) + withUnsafeBytes(of: slot, Array.init)
        return [level.rawValue].withUnsafeBytes { data in context.withUnsafeBytes { body(data, $0) } }
    }
}

// MARK: - The record

extension KeybagSlot {
    private static let headerLength = 64
    private static let opensAllNumber: UInt8 = 1
    private static let opensAfterFirstUnlockNumber: UInt8 = 2

    static let maximumLength =
        headerLength + 2 * Grant.length + maximumLabelLength + maximumParametersLength

    var length: Int {
        Self.headerLength + grants.count * Grant.length + label.utf8.count + parameters.count
    }

    func write(to writer: inout ByteWriter) {
        withUnsafeBytes(of: id) { writer.write($0) }
        writer.write(kind.rawValue)
        writer.write(opensAllClasses ? Self.opensAllNumber : Self.opensAfterFirstUnlockNumber)
        writer.skip(2)
        writer.write(UInt16(label.utf8.count))
        writer.write(UInt16(parameters.count))
        writer.write(created.timeIntervalSinceReferenceDate)
        salt.withUnsafeBytes { writer.write($0) }
        for grant in grants {
            grant.publicKey.withUnsafeBytes { writer.write($0) }
            grant.box.withUnsafeBytes { writer.write($0) }
        }
        writer.write(label)
        parameters.withUnsafeBytes { writer.write($0) }
    }

    init(_ reader: inout ByteReader) throws(RecordError) {
        guard let id = reader.readBytes(16)?.loadUnaligned(as: ID.self),
            let kind = reader.read(UInt8.self).flatMap(SlotKind.init(rawValue:)),
            let opens = reader.read(UInt8.self),
            opens == Self.opensAllNumber || opens == Self.opensAfterFirstUnlockNumber,
            reader.skipZeros(2),
            let labelLength = reader.read(UInt16.self), labelLength <= Self.maximumLabelLength,
            let parametersLength = reader.read(UInt16.self),
            parametersLength <= Self.maximumParametersLength,
            let created = reader.readDouble(), created.isFinite,
            let salt = reader.readBytes(Self.saltLength)
        else { throw .malformed("one of its slots is not well-formed") }
        self.id = id
        self.kind = kind
        self.created = Date(timeIntervalSinceReferenceDate: created)
        self.salt = [UInt8](salt)
        var grants: [Grant] = []
        for level in Self.levels(opensAllClasses: opens == Self.opensAllNumber) {
            guard let publicKey = reader.readBytes(KeyPair.publicKeyLength),
                let box = reader.readBytes(Grant.boxLength)
            else { throw .malformed("one of its slots is cut short") }
            grants.append(Grant(level: level, publicKey: [UInt8](publicKey), box: [UInt8](box)))
        }
        guard let label = reader.readText(Int(labelLength)),
            let parameters = reader.readBytes(Int(parametersLength))
        else { throw .malformed("one of its slots is cut short") }
        self.grants = grants
        self.label = label
        self.parameters = [UInt8](parameters)
    }
}
