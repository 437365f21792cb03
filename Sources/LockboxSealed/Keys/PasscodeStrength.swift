import LockboxCore

/// How much work it takes to try one passcode: the cost of an unlock, and of each guess by who has the files and the
/// device key. Argon2id with libsodium's parameters of these names; stored with the passcode.
public enum PasscodeStrength: String, Sendable, Hashable, Codable, CaseIterable {
    /// 2 passes over 64 MiB; well under a tenth of a second.
    case interactive
    /// 3 passes over 256 MiB; about half a second. The default.
    case moderate
    /// 4 passes over 1 GiB; some seconds.
    case sensitive
}
