import LockboxCore
public import LockboxPlatform

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

    init(_ slot: KeybagSlot) {
        id = slot.id.hexadecimal
        kind = slot.kind
        label = slot.label
        created = slot.created
        opensAllClasses = slot.opensAllClasses
    }
}
