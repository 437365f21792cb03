/// Which accessibility classes of a store can be read and written now.
public enum LockState: String, Sendable, Hashable, Codable, CaseIterable {
    /// The store has no passcode and no other slot. All classes are open except `whenPasscodeSetThisDeviceOnly`, which needs one.
    case unprotected
    /// The store has a passcode and has not been unlocked yet. Only the `always` classes are open.
    case beforeFirstUnlock
    /// All classes are open.
    case unlocked
    /// The store was locked again after an unlock. The `always` and `afterFirstUnlock` classes are open.
    case locked
}
