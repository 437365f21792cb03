/// Which of a store's classes can be read and written now.
public enum LockState: String, Sendable, Hashable, Codable, CaseIterable {
    /// The store has no passcode. Everything is open but `whenPasscodeSetThisDeviceOnly`, which does not exist.
    case noPasscode
    /// There is a passcode, and this process has not had it yet: only the `always` classes are open.
    case beforeFirstUnlock
    /// Everything is open.
    case unlocked
    /// Locked after it was unlocked: the `always` and the `afterFirstUnlock` classes are open.
    case locked
}
