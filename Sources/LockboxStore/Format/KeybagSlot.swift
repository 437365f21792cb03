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
            opens == Self.opensAllNumber || opens == Self.opensAfterFirstUnlockNumber && kind.canOpenLess,
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

/// The keys that open a slot of the keybag: one for each level, derived from the slot's secret. A process that has unlocked
/// the store keeps them, and opens with them the keybags that others write.
struct SlotKeys: Sendable {
    let slot: KeybagSlot.ID
    let keys: [UnlockLevel: SecretKey]

    init(slot: KeybagSlot.ID, keys: [UnlockLevel: SecretKey]) {
        self.slot = slot
        self.keys = keys
    }

    /// - Parameter secret: The method's secret, 32 to 64 bytes.
    init(secret: SecretKey, slot: KeybagSlot.ID, store: StoreID, levels: [UnlockLevel]) throws {
        self.slot = slot
        let binding = withUnsafeBytes(of: store, Array.init) + withUnsafeBytes(of: slot, Array.init)
        let root = try Sodium.derive(.slot, from: secret, binding)
        var keys: [UnlockLevel: SecretKey] = [:]
        for level in levels { keys[level] = try Sodium.derive(.level, from: root, [level.rawValue]) }
        self.keys = keys
    }

    func without(_ levels: [UnlockLevel]) -> SlotKeys {
        SlotKeys(slot: slot, keys: keys.filter { !levels.contains($0.key) })
    }

    /// The pair that a level's unlock key is sealed to.
    func pair(_ level: UnlockLevel) throws -> KeyPair? {
        try keys[level].map { try KeyPair(seed: Sodium.derive(.keyPair, from: $0)) }
    }

    /// The key that a writer of keybags shares with the slot. It opens nothing; it shows that the unlock key was sealed
    /// by somebody who could open the store, not just by somebody who has the device key.
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
    /// A code that Lockbox generated, and that somebody has written down.
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

/// Argon2id's cost, as a passcode's slot and a backup store it: the algorithm's number, three zeros, passes, memory.
/// 16 bytes.
struct PasscodeCost: Sendable, Equatable {
    static let length = 16

    let operations: UInt32
    let memory: UInt64

    /// The stored number of Argon2id 1.3. Not left to libsodium's default, which has changed before.
    private static let argon2id13: UInt8 = 1
    private static let operationsLimits = Argon2id.interactive.operations...10
    private static let memoryLimits = Argon2id.interactive.memory...(1 << 30)

    init(_ strength: PasscodeStrength) {
        (operations, memory) =
            switch strength {
            case .interactive: Argon2id.interactive
            case .moderate: Argon2id.moderate
            case .sensitive: Argon2id.sensitive
            }
    }

    /// Checks the cost before a run of Argon2id uses it.
    init(_ reader: inout ByteReader) throws(RecordError) {
        guard reader.read(UInt8.self) == Self.argon2id13, reader.skipZeros(3),
            let operations = reader.read(UInt32.self), let memory = reader.read(UInt64.self)
        else { throw .malformed("its passcode uses an unknown algorithm") }
        guard Self.operationsLimits.contains(operations) else {
            throw .malformed(
                "its passcode needs \(operations) passes; the limits are \(Self.operationsLimits)"
            )
        }
        guard Self.memoryLimits.contains(memory), memory % 1024 == 0 else {
            throw .malformed(
                "its passcode needs \(memory) bytes of memory; the limits are \(Self.memoryLimits), in whole KiB"
            )
        }
        self.operations = operations
        self.memory = memory
    }

    /// Reads a slot's parameters.
    init(_ parameters: [UInt8]) throws {
        self = try parameters.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            let cost = try PasscodeCost(&reader)
            guard reader.remaining == 0 else {
                throw RecordError.malformed("its passcode has unknown parameters")
            }
            return cost
        }
    }

    func write(to writer: inout ByteWriter) {
        writer.write(Self.argon2id13)
        writer.skip(3)
        writer.write(operations)
        writer.write(memory)
    }

    /// Runs Argon2id.
    func derive(
        _ passcode: UnsafeRawBufferPointer,
        salt: SIMD16<UInt8>,
        into output: UnsafeMutableRawBufferPointer
    ) throws {
        try Argon2id.derive(passcode, salt: salt, operations: operations, memory: memory, into: output)
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
