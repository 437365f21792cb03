import LockboxCore
import LockboxSodium

/// Unlocks with a key in a file or a systemd credential, without a person: for services.
public struct KeyUnlock: UnlockMethod {
    /// ``SlotKind/key``.
    public var kind: SlotKind { .key }

    private let key: DeviceKeySource

    /// Creates the method.
    ///
    /// - Parameter key: The source of the key: at least 32 random bytes, stored apart from the device key, which every
    ///   program that uses the store needs. With ``DeviceKeySource/stored``, calls throw
    ///   ``LockboxError/invalidDeviceKey(source:reason:)``.
    public init(_ key: DeviceKeySource) { self.key = key }

    /// Reads the key, which is the secret. There are no parameters.
    public func enroll(salt: [UInt8]) throws -> SlotEnrollment {
        SlotEnrollment(parameters: [], secret: try deriveSecret([], salt: salt))
    }

    /// Reads the key again.
    public func deriveSecret(_ parameters: [UInt8], salt: [UInt8]) throws -> [UInt8] {
        guard parameters.isEmpty else {
            throw LockboxError.corrupt(record: "the key slot", reason: "it has unknown parameters")
        }
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

extension KeybagSlot {
    /// Whether a key of these bytes, hashed, opens the slot.
    func isOpened(by key: SecretKey, _ store: StoreID) throws -> Bool {
        guard kind == .key else { return false }
        let secret = try Sodium.derive(.key, from: key, salt)
        let levels = Self.levels(opensAllClasses: opensAllClasses)
        return try fits(SlotKeys(secret: secret, slot: id, store: store, levels: levels))
    }

    /// Whether the slot's key has the bytes of a device key, of its record in the store, or of the file that it is read from. The
    /// slot would protect nothing from whoever has the device key.
    func isOpened(byDeviceKey key: SecretKey, _ store: StoreID) throws -> Bool {
        let given = try [{ key.withBytes(Array.init) }, { DeviceKeyRecord.encoded([key]) }]
            .map { try DeviceKeySource.key("", $0) }
        return try ([key] + given).contains { try isOpened(by: $0, store) }
    }
}

extension UnlockMethod where Self == KeyUnlock {
    /// Unlocks with a key in a file or a systemd credential.
    ///
    /// - Parameter key: The source of the key, at least 32 random bytes.
    public static func key(_ key: DeviceKeySource) -> Self { KeyUnlock(key) }
}
