import LockboxCore

/// The two levels of unlocking. Each has a random unlock key that seals its class keys. The numbers are stored.
enum UnlockLevel: UInt8, Sendable, CaseIterable {
    /// All classes.
    case unlocked = 1
    /// The `afterFirstUnlock` classes only: what is left after a lock, and what a service opens without a person.
    case afterFirstUnlock = 2
}
