@_spi(Extensions) import LockboxCore
public import LockboxPlatform

/// A way to unlock a store: creates the secret of a slot, and returns the same secret at every unlock.
///
/// Lockbox has methods for a passcode, a recovery code, and a key in a file. `LockboxTPM` and `LockboxFIDO2` add
/// hardware. Lockbox derives the slot's keys from the secret and never stores the secret itself.
public protocol UnlockMethod: Sendable {
    /// The kind of the slots that this method creates and opens.
    var kind: SlotKind { get }

    /// Creates a new secret.
    ///
    /// - Parameter salt: 32 random bytes of the new slot. They are stored in the keybag, encrypted with the device
    ///   key, so an attacker without the device key cannot guess a secret that is derived from them.
    /// - Returns: The parameters that ``deriveSecret(_:salt:)`` needs, and the secret.
    /// - Throws: ``LockboxError`` if the secret cannot be created.
    func enroll(salt: [UInt8]) throws -> SlotEnrollment

    /// Returns the secret of a slot.
    ///
    /// - Parameters:
    ///   - parameters: The parameters that ``enroll(salt:)`` returned.
    ///   - salt: The slot's salt.
    /// - Returns: The secret that ``enroll(salt:)`` returned. Lockbox detects a wrong one.
    /// - Throws: ``LockboxError/wrongPasscode`` if the method itself detects a wrong PIN;
    ///   ``LockboxError/accessDenied(endpoint:reason:)`` if the hardware refuses any further attempt for now;
    ///   ``LockboxError/notReachable(endpoint:reason:)`` if the hardware cannot be found.
    func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8]
}

/// The result of ``UnlockMethod/enroll(salt:)``: the secret of a new slot, and what is stored with the slot.
public struct SlotEnrollment: Sendable {
    /// The maximum length of the parameters: 2,048 bytes.
    @_spi(Extensions) public static let maximumParametersLength = KeybagSlot.maximumParametersLength

    /// The parameters that the method needs to return the secret again. Stored in the keybag, encrypted with the device key.
    @_spi(Extensions) public var parameters: [UInt8]

    /// 32 to 64 bytes that cannot be guessed without the method and the salt.
    @_spi(Extensions) public var secret: [UInt8]

    /// Creates an enrollment.
    ///
    /// - Parameters:
    ///   - parameters: At most 2,048 bytes.
    ///   - secret: 32 to 64 bytes. Wiped after use.
    public init(parameters: [UInt8], secret: [UInt8]) {
        self.parameters = parameters
        self.secret = secret
    }
}

extension SlotEnrollment: Undescribed {}

/// One way to unlock a store.
public struct UnlockSlot: Sendable, Hashable, Codable, Identifiable {
    /// The slot's random ID, 32 hexadecimal digits.
    public let id: String

    /// The kind of secret that opens the slot.
    public let kind: SlotKind

    /// A name for people.
    public let label: String

    /// When the slot was added.
    public let created: Date

    /// Whether the slot opens all classes, or only the `afterFirstUnlock` classes.
    public let opensAllClasses: Bool

    /// Whether the slot is older than the last change or removal of another one. An attacker with that other secret, a
    /// copy of the store of that time and write access now can forge a store that this slot opens. Replace the slot, with a new secret.
    public let isOlderThanRevocation: Bool

    init(_ slot: KeybagSlot, in keybag: Keybag) {
        id = slot.id.hexadecimal
        kind = slot.kind
        label = slot.label
        created = slot.created
        opensAllClasses = slot.opensAllClasses
        isOlderThanRevocation = keybag.isOlderThanRevocation(slot)
    }
}

/// Unlocks with a secret that a person or a file has: see ``UnlockMethod/passcode(_:strength:)``,
/// ``UnlockMethod/recoveryCode(_:)`` and ``UnlockMethod/key(_:)``.
public struct SecretUnlock: UnlockMethod {
    /// The kind of the slots that it creates and opens.
    public let kind: SlotKind

    /// Those of a new slot.
    fileprivate var parameters: [UInt8] = []
    fileprivate let secret: @Sendable (_ parameters: [UInt8], _ salt: [UInt8]) throws -> [UInt8]

    /// Reads or derives the secret.
    public func enroll(salt: [UInt8]) throws -> SlotEnrollment {
        SlotEnrollment(parameters: parameters, secret: try secret(parameters, salt))
    }

    /// Reads or derives the secret again.
    public func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
        try secret(parameters, salt)
    }
}

extension SecretUnlock: Undescribed {}

extension UnlockMethod where Self == SecretUnlock {
    /// Unlocks with a passcode, stretched with Argon2id.
    ///
    /// - Parameters:
    ///   - passcode: The source of the passcode: 1 to 1,024 bytes.
    ///   - strength: The cost of each unlock and each guess, for a new slot.
    public static func passcode(_ passcode: PasscodeSource, strength: PasscodeStrength = .moderate) -> Self {
        Self(kind: .passcode, parameters: PasscodeCost(strength).encoded) { parameters, salt in
            do { return try PasscodeCost(parameters).derive(passcode, salt: salt) } catch let error
                as RecordError
            { throw error.lockboxError("the passcode slot") }
        }
    }

    /// Unlocks with a ``RecoveryCode``.
    ///
    /// - Parameter code: The source of the code, as the user types it.
    public static func recoveryCode(_ code: PasscodeSource) -> Self { recoveryCode(code, known: nil) }

    /// Needs no source.
    static func recoveryCode(known code: RecoveryCode) -> Self { recoveryCode(.closure { [] }, known: code) }

    private static func recoveryCode(_ source: PasscodeSource, known: RecoveryCode?) -> Self {
        // The code that was typed. A store may have several codes, and a person is asked once.
        let typed = Protected(known)
        return Self(kind: .recoveryCode) { parameters, salt in
            try checkIsEmpty(parameters, "the slot of the recovery code")
            let code = try typed.withLock { $0 } ?? source.withBytes { try RecoveryCode(typed: $0) }
            typed.withLock { $0 = code }
            // A code has 130 random bits, so Argon2id is not needed.
            return Sodium.hash(of: salt, key: try code.key(), personal: .recovery)
        }
    }

    /// Unlocks with a key in a file or a systemd credential, without a person: for services.
    ///
    /// - Parameter key: The source of the key: at least 32 random bytes, stored apart from the device key, which every
    ///   program that uses the store needs. With ``DeviceKeySource/stored``, calls throw
    ///   ``LockboxError/invalidDeviceKey(source:reason:)``.
    public static func key(_ key: DeviceKeySource) -> Self {
        Self(kind: .key) { parameters, salt in
            try checkIsEmpty(parameters, "the key slot")
            guard let key = try key.given() else {
                throw LockboxError.invalidDeviceKey(
                    source: "stored",
                    reason: "the key of a slot cannot be kept in the store; keep it in a file or a credential"
                )
            }
            // Not the key itself: the same bytes as a device key would be the same key.
            return try Sodium.derive(.key, from: key, salt).withBytes(Array.init)
        }
    }

    private static func checkIsEmpty(_ parameters: [UInt8], _ record: LockboxError.Subject) throws {
        if parameters.isEmpty { return }
        throw LockboxError.corrupt(record: record, reason: "it has unknown parameters")
    }
}

extension PasscodeCost {
    /// Derives a slot's secret from the passcode. Runs Argon2id.
    fileprivate func derive(_ passcode: PasscodeSource, salt: [UInt8]) throws -> [UInt8] {
        guard salt.count >= MemoryLayout<SIMD16<UInt8>>.size else {
            throw RecordError.malformed("its salt has \(salt.count) bytes")
        }
        let salt = salt.withUnsafeBytes { $0.loadUnaligned(as: SIMD16<UInt8>.self) }
        var secret = [UInt8](repeating: 0, count: SecretKey.length)
        try passcode.withBytes { passcode in
            try secret.withUnsafeMutableBytes {
                try Argon2id.derive(passcode, salt: salt, operations: operations, memory: memory, into: $0)
            }
        }
        return secret
    }
}

extension KeybagSlot {
    /// Whether a key of these bytes, hashed, opens the slot.
    func isOpened(by key: SecretKey, _ store: StoreID) throws -> Bool {
        guard kind == .key else { return false }
        return try fits(keys(Sodium.derive(.key, from: key, salt), store))
    }

    /// Whether the slot's key has the bytes of a device key, of its record in the store, or of the file that it is read from. The
    /// slot would protect nothing from an attacker with the device key.
    func isOpened(byDeviceKey key: SecretKey, _ store: StoreID) throws -> Bool {
        let given = try [{ key.withBytes(Array.init) }, { DeviceKeyRecord.encoded([key]) }]
            .map { try DeviceKeySource.key("", $0) }
        return try ([key] + given).contains { try isOpened(by: $0, store) }
    }
}
