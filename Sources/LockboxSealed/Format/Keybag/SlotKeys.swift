import LockboxCore
import LockboxSodium

/// What opens a slot of the keybag: a key for each level, derived from the slot's secret. A process that has unlocked
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
