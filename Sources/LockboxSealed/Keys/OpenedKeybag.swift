import LockboxCore
import LockboxSodium

/// A keybag that has been read, and its open keys. A class, because every access passes it on.
final class OpenedKeybag: Sendable {
    let keybag: Keybag
    let keyring: Keyring
    /// The unlock keys that are open: both, one after a lock, or none. A store without slots has both.
    let unlockKeys: [UnlockLevel: SecretKey]
    /// See ``Keybag/Contents/lineage``.
    let lineage: [SecretKey]
    /// Held while this process has unlocked the store itself. They open the keybags that other processes write.
    let slotKeys: SlotKeys?
    /// See ``isWiped``.
    private let generation = ForkGuard.generation

    /// Whether this is a forked child, in which the kernel has wiped the parent's keys.
    var isWiped: Bool { generation != ForkGuard.generation }

    init(
        _ keybag: Keybag,
        _ keys: [Keyring.Entry],
        unlockKeys: [UnlockLevel: SecretKey],
        lineage: [SecretKey],
        slotKeys: SlotKeys?,
        revision: RecordRevision
    ) throws(RecordError) {
        self.keybag = keybag
        self.unlockKeys = unlockKeys
        self.lineage = lineage
        self.slotKeys = slotKeys
        keyring = try Keyring(keybag: keybag, keys: keys, revision: revision)
    }

    /// Returns the same keybag without the keys of some levels.
    func without(_ levels: [UnlockLevel]) throws(RecordError) -> OpenedKeybag {
        try OpenedKeybag(
            keybag,
            keyring.keys { $0.level.map { !levels.contains($0) } ?? true },
            unlockKeys: unlockKeys.filter { !levels.contains($0.key) },
            lineage: levels.contains(.unlocked) ? [] : lineage,
            slotKeys: slotKeys?.without(levels),
            revision: keyring.revision
        )
    }

    /// Returns the same keybag with the keys that an unlock key opens in addition.
    func adding(_ level: UnlockLevel, _ key: SecretKey) throws -> OpenedKeybag {
        let contents = try keybag.open([level: key])
        let known = keyring.keys { _ in true }
        let added = contents.keys.filter { entry in !known.contains { $0.id == entry.id } }
        return try OpenedKeybag(
            keybag,
            known + added,
            unlockKeys: contents.unlockKeys.merging(unlockKeys) { new, _ in new },
            lineage: contents.lineage.isEmpty ? lineage : contents.lineage,
            slotKeys: nil,
            revision: keyring.revision
        )
    }
}
