import LockboxCore
import LockboxPlatform

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
    /// The epoch that began with it. 0 until then.
    var since: UInt32 = 0
    /// `afterFirstUnlock`, and in a slot that opens everything also `unlocked`.
    var grants: [Grant]

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

    var opensAllClasses: Bool { grants.contains { $0.level == .unlocked } }

    /// Returns the slot's keys, if this is its secret.
    func keys(_ secret: SecretKey, _ store: StoreID) throws -> SlotKeys {
        try SlotKeys(secret: secret, slot: id, store: store, levels: grants.map(\.level))
    }

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
        box.withUnsafeMutableBytes {
            SealedBox.seal($0, authenticating: [level.rawValue], with: boxKey(authentication, slot, store))
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
            let boxKey = Self.boxKey(authentication, id, store)
            let sealed = SealedBox.open(box, authenticating: [level.rawValue], with: boxKey)
            guard let sealed, let key = try pair.open(UnsafeRawBufferPointer(sealed)) else {
                throw RecordError.notAuthentic
            }
            return key
        }
    }

    private static func boxKey(_ authentication: SecretKey, _ slot: ID, _ store: StoreID) -> BoxKey {
        BoxKey(key: authentication, personal: .grant, context: store.bytes + slot.bytes)
    }
}

// MARK: - The record

extension KeybagSlot {
    private static let headerLength = 68
    private static let opensAllNumber: UInt8 = 1
    private static let opensAfterFirstUnlockNumber: UInt8 = 2

    static let maximumLength =
        headerLength + 2 * Grant.length + maximumLabelLength + maximumParametersLength

    var length: Int {
        Self.headerLength + grants.count * Grant.length + label.utf8.count + parameters.count
    }

    func write(to writer: inout ByteWriter) {
        writer.write(id)
        writer.write(kind.rawValue)
        writer.write(opensAllClasses ? Self.opensAllNumber : Self.opensAfterFirstUnlockNumber)
        writer.skip(2)
        writer.write(UInt16(label.utf8.count))
        writer.write(UInt16(parameters.count))
        writer.write(created.timeIntervalSinceReferenceDate)
        writer.write(salt)
        writer.write(since)
        for grant in grants {
            writer.write(grant.publicKey)
            writer.write(grant.box)
        }
        writer.write(label)
        writer.write(parameters)
    }

    init(_ reader: inout ByteReader) throws(RecordError) {
        guard let id = reader.readID(),
            let kind = reader.read(UInt8.self).flatMap(SlotKind.init(rawValue:)),
            let opens = reader.read(UInt8.self),
            opens == Self.opensAllNumber || opens == Self.opensAfterFirstUnlockNumber && kind.canOpenLess,
            reader.skipZeros(2),
            let labelLength = reader.read(UInt16.self), labelLength <= Self.maximumLabelLength,
            let parametersLength = reader.read(UInt16.self),
            parametersLength <= Self.maximumParametersLength,
            let created = reader.readDouble(), created.isFinite,
            let salt = reader.readBytes(Self.saltLength), let since = reader.read(UInt32.self), since > 0
        else { throw .malformed("one of its slots is not well-formed") }
        self.id = id
        self.kind = kind
        self.created = Date(timeIntervalSinceReferenceDate: created)
        self.salt = [UInt8](salt)
        self.since = since
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

/// The keys that open a slot of the keybag: one for each level, derived from the slot's secret. A process that has unlocked
/// the store keeps them, and opens with them the keybags that others write.
struct SlotKeys: Sendable {
    let slot: KeybagSlot.ID
    private(set) var keys: [UnlockLevel: SecretKey] = [:]

    /// - Parameter secret: The method's secret, 32 to 64 bytes.
    init(secret: SecretKey, slot: KeybagSlot.ID, store: StoreID, levels: [UnlockLevel]) throws {
        self.slot = slot
        let root = try Sodium.derive(.slot, from: secret, store.bytes + slot.bytes)
        for level in levels { keys[level] = try Sodium.derive(.level, from: root, [level.rawValue]) }
    }

    func without(_ levels: [UnlockLevel]) -> SlotKeys {
        var kept = self
        kept.keys = keys.filter { !levels.contains($0.key) }
        return kept
    }

    /// The pair that a level's unlock key is sealed to.
    func pair(_ level: UnlockLevel) throws -> KeyPair? {
        try keys[level].map { try KeyPair(seed: Sodium.derive(.keyPair, from: $0)) }
    }

    /// The key that a writer of keybags shares with the slot. It opens nothing; it shows that the unlock key was sealed
    /// by a writer that could open the store, not just by an attacker with the device key.
    func authentication(_ level: UnlockLevel) throws -> SecretKey? {
        try keys[level].map { try Sodium.derive(.authentication, from: $0) }
    }
}

/// The kind of secret that opens a slot of the keybag. The numbers are stored.
///
/// Minor versions may add cases.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum SlotKind: UInt8, Sendable, Hashable, Codable, CaseIterable {
    /// A passcode that a person remembers. A store has at most one.
    case passcode = 1
    /// A code that Lockbox generated, and that a person has written down.
    case recoveryCode = 2
    /// At least 32 random bytes in a file or a systemd credential.
    case key = 3
    /// A secret in a Trusted Platform Module.
    case tpm = 4
    /// A secret in a FIDO2 security key.
    case fido2 = 5

    /// Whether a slot of this kind may open the `afterFirstUnlock` classes alone.
    var canOpenLess: Bool { self != .passcode && self != .recoveryCode }
}

extension SlotKind: CustomStringConvertible {
    /// The name of the kind, as the command shows it.
    public var description: String {
        switch self {
        case .passcode: "passcode"
        case .recoveryCode: "recovery-code"
        case .key: "key"
        case .tpm: "tpm"
        case .fido2: "fido2"
        }
    }
}

/// Argon2id's cost, as a passcode's slot stores it: the algorithm's number, three zeros, passes, memory. 16 bytes.
struct PasscodeCost: Sendable, Equatable {
    let operations: UInt32
    let memory: UInt64

    /// The stored number of Argon2id 1.3. Not left to libsodium's default, which has changed before.
    private static let argon2id13: UInt8 = 1
    private static let operationsLimits = Argon2id.interactive.operations...10
    private static let memoryLimits = Argon2id.interactive.memory...(1 << 30)

    /// A slot's parameters.
    var encoded: [UInt8] {
        [Self.argon2id13, 0, 0, 0] + withUnsafeBytes(of: operations.littleEndian, Array.init)
            + withUnsafeBytes(of: memory.littleEndian, Array.init)
    }
}

extension PasscodeCost {
    init(_ strength: PasscodeStrength) {
        (operations, memory) =
            switch strength {
            case .interactive: Argon2id.interactive
            case .moderate: Argon2id.moderate
            case .sensitive: Argon2id.sensitive
            }
    }

    /// Reads a slot's parameters, and checks the cost before a run of Argon2id uses it.
    init(_ parameters: [UInt8]) throws {
        self = try parameters.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            guard reader.read(UInt8.self) == Self.argon2id13, reader.skipZeros(3),
                let operations = reader.read(UInt32.self), let memory = reader.read(UInt64.self)
            else { throw RecordError.malformed("its passcode uses an unknown algorithm") }
            guard Self.operationsLimits.contains(operations) else {
                throw RecordError.malformed(
                    "its passcode needs \(operations) passes; the limits are \(Self.operationsLimits)"
                )
            }
            guard Self.memoryLimits.contains(memory), memory % 1024 == 0 else {
                throw RecordError.malformed(
                    "its passcode needs \(memory) bytes of memory; the limits are \(Self.memoryLimits), in whole KiB"
                )
            }
            guard reader.remaining == 0 else {
                throw RecordError.malformed("its passcode has unknown parameters")
            }
            return Self(operations: operations, memory: memory)
        }
    }
}

/// The Argon2id cost of a passcode: what each unlock costs, and each guess by an attacker with the files and
/// the device key. The parameters are libsodium's of the same names, and are stored with the passcode.
///
/// Minor versions may add cases.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum PasscodeStrength: String, Sendable, Hashable, Codable, CaseIterable {
    /// 2 passes over 64 MiB, well under a tenth of a second.
    case interactive
    /// 3 passes over 256 MiB, about half a second. The default.
    case moderate
    /// 4 passes over 1 GiB, a few seconds.
    case sensitive
}
