import LockboxCore

/// A keybag that has been read, and its open keys. A class, because every access passes it on.
final class OpenedKeybag: Sendable {
    let keybag: Keybag
    let keyring: Keyring
    /// The unlock keys that are open: both, one after a lock, or none. A store without slots has both.
    let unlockKeys: [UnlockLevel: SecretKey]
    /// Whether level 1 was opened, so that all of it is known to be the owner's.
    let isComplete: Bool
    /// Held while this process has unlocked the store itself. They open the keybags that other processes write.
    let slotKeys: SlotKeys?
    /// What is known of the store, if nothing has opened level 1 of this keybag.
    private let known: Knowledge.Unlocked?
    /// See ``isWiped``.
    private let generation = ForkGuard.generation

    /// Whether this is a forked child, in which the kernel has wiped the parent's keys.
    var isWiped: Bool { generation != ForkGuard.generation }

    init(
        _ keybag: Keybag,
        _ keys: [Keyring.Entry],
        unlockKeys: [UnlockLevel: SecretKey],
        isComplete: Bool,
        slotKeys: SlotKeys?,
        known: Knowledge.Unlocked? = nil,
        version: KeybagVersion
    ) throws(RecordError) {
        self.keybag = keybag
        self.unlockKeys = unlockKeys
        self.isComplete = isComplete
        self.slotKeys = slotKeys
        self.known = known
        keyring = try Keyring(
            keybag: keybag,
            keys: keys,
            closings: known?.closings(of: keybag),
            firstProtected: known?.firstProtected ?? 0,
            version: version
        )
    }

    /// The classes that are open with these keys.
    var lockState: LockState {
        if keybag.slots.isEmpty { return .unprotected }
        if keyring.isOpen(.whenUnlocked) { return .unlocked }
        return keyring.isOpen(.afterFirstUnlock) ? .locked : .beforeFirstUnlock
    }

    /// Returns the same keybag without the keys of some levels.
    func without(_ levels: [UnlockLevel]) throws(RecordError) -> OpenedKeybag {
        try OpenedKeybag(
            keybag,
            keyring.keys { $0.level.map { !levels.contains($0) } ?? true },
            unlockKeys: unlockKeys.filter { !levels.contains($0.key) },
            isComplete: isComplete && !levels.contains(.unlocked),
            slotKeys: slotKeys?.without(levels),
            known: known,
            version: keyring.version
        )
    }

    /// Returns the same keybag with the keys that an unlock key opens in addition.
    func adding(_ level: UnlockLevel, _ key: SecretKey) throws -> OpenedKeybag {
        let contents = try keybag.open([level: key])
        let others = keyring.keys { _ in true }.filter { other in
            !contents.keys.contains { $0.id == other.id }
        }
        return try OpenedKeybag(
            keybag,
            contents.keys + others,
            unlockKeys: contents.unlockKeys.merging(unlockKeys) { new, _ in new },
            isComplete: isComplete || contents.isComplete,
            slotKeys: nil,
            known: contents.isComplete ? nil : known,
            version: keyring.version
        )
    }
}
