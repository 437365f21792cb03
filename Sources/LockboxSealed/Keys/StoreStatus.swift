public import LockboxPlatform

/// What is known of a store's keys without an unlock.
public struct StoreStatus: Sendable, Hashable, Codable {
    /// The random ID of the store, in 32 hexadecimal digits.
    public let identity: String

    /// How often the keybag was written.
    public let generation: UInt64

    /// The number of the keys that new items are sealed with. It grows with every change of the slots and every rotation.
    public let epoch: UInt32

    /// The epochs before it whose keys are kept because items may still be sealed with them. Empty after a complete
    /// rotation.
    public let olderEpochs: [UInt32]

    /// Whether a change of the keys was interrupted before the new ones were used. The secrets that it should revoke still
    /// open new items until the keys are rotated.
    public let isInterrupted: Bool

    /// Everything that unlocks the store. Empty if the device key alone opens it.
    public let slots: [UnlockSlot]

    /// The processes for which the store is unlocked, or `nil` if it is locked or has no slots.
    public let unlockScope: UnlockScope?

    /// When an unlock for every process of the user ends. `nil` if there is none, or if it has no time limit.
    public let unlockedUntil: Date?
}
