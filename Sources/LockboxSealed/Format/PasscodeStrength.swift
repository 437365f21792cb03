import LockboxCore

/// The Argon2id cost of a passcode: what each unlock costs, and each guess by an attacker with the files and
/// the device key. The parameters are libsodium's of the same names, and are stored with the passcode.
///
/// Minor versions may add cases.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum PasscodeStrength: String, Sendable, Hashable, Codable, CaseIterable {
    /// 2 passes over 64 MiB, well under a tenth of a second.
    case interactive
    /// 3 passes over 256 MiB, about half a second. The default.
    case moderate
    /// 4 passes over 1 GiB, a few seconds.
    case sensitive
}
