import LockboxCore
public import LockboxPlatform

/// One way to unlock a store.
public struct UnlockSlot: Sendable, Hashable, Codable, Identifiable {
    /// Random, 32 hexadecimal digits.
    public let id: String

    /// What kind of secret opens it.
    public let kind: SlotKind

    /// A name for people.
    public let label: String

    /// When it was made.
    public let created: Date

    /// Whether it opens all classes, or only the `afterFirstUnlock` classes.
    public let opensAll: Bool

    init(_ slot: KeybagSlot) {
        id = slot.id.hexadecimal
        kind = slot.kind
        label = slot.label
        created = slot.created
        opensAll = slot.opensAll
    }
}
