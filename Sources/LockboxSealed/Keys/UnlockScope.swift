import LockboxCore

/// The processes for which a store is unlocked.
///
/// Minor versions may add cases.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum UnlockScope: String, Sendable, Hashable, Codable, CaseIterable {
    /// One backend in this process, until it locks or the process ends.
    case process
    /// Every process of the user, with keys in the Linux kernel, until one of them locks, the timeout passes,
    /// or the machine restarts.
    case user
}
