import LockboxCore

/// For whom a store is unlocked.
public enum UnlockScope: String, Sendable, Hashable, Codable, CaseIterable {
    /// For one backend in this process, until it locks or the process ends.
    case process
    /// For every process of the user, by keys in the Linux kernel, until one of them locks, a time limit passes, or the
    /// machine restarts.
    case user
}
