/// The kind of secret that opens a slot of the keybag. The numbers are stored.
///
/// Minor versions may add cases.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum SlotKind: UInt8, Sendable, Hashable, Codable, CaseIterable {
    /// A passcode that a person remembers. A store has at most one.
    case passcode = 1
    /// A code that Lockbox generated, and that somebody has written down.
    case recoveryCode = 2
    /// At least 32 random bytes in a file or a systemd credential.
    case key = 3
    /// A secret in a Trusted Platform Module.
    case tpm = 4
    /// A secret in a FIDO2 security key.
    case fido2 = 5
}

extension SlotKind: CustomStringConvertible {
    /// The name of the kind, as the command shows it.
    public var description: String {
        switch self {
        case .passcode: "passcode"
        case .recoveryCode: "recovery-code"
        case .key: "key"
        case .tpm: "tpm"
        case .fido2: "fido2"
        }
    }
}
