/// What the user must do before the Keychain returns an item: the flags of `SecAccessControlCreateWithFlags`, with the
/// names and values of Apple's `SecAccessControl.h`.
///
/// At least one of the first five flags is required; the last two combine them. Apple's other flags need an `LAContext` or a key in the
/// Secure Enclave, and are refused.
public struct KeychainAccessControl: OptionSet, Sendable, Hashable {
    /// The flags as Apple defines them.
    public let rawValue: UInt

    /// Creates an access control from Apple's flags.
    ///
    /// - Parameter rawValue: The flags as Apple defines them.
    public init(rawValue: UInt) { self.rawValue = rawValue }

    /// `kSecAccessControlUserPresence`: biometry or the device's passcode. Cannot be combined with the others.
    public static let userPresence = Self(rawValue: 1 << 0)

    /// `kSecAccessControlBiometryAny`: Touch ID or Face ID, including biometry enrolled later.
    public static let biometryAny = Self(rawValue: 1 << 1)

    /// `kSecAccessControlBiometryCurrentSet`: Touch ID or Face ID as enrolled now. When the enrollment changes, the
    /// item is lost.
    public static let biometryCurrentSet = Self(rawValue: 1 << 3)

    /// `kSecAccessControlDevicePasscode`: the device's passcode.
    public static let devicePasscode = Self(rawValue: 1 << 4)

    /// `kSecAccessControlCompanion`: a paired device, such as a watch.
    public static let companion = Self(rawValue: 1 << 5)

    /// `kSecAccessControlOr`: one of several is enough.
    public static let or = Self(rawValue: 1 << 14)

    /// `kSecAccessControlAnd`: all of them are needed.
    public static let and = Self(rawValue: 1 << 15)

    private static let constraints: Self = [
        .userPresence, .biometryAny, .biometryCurrentSet, .devicePasscode, .companion,
    ]

    /// Whether the user must do anything.
    package var asksUser: Bool { !isDisjoint(with: Self.constraints) }

    var isOfPassword: Bool { asksUser && isSubset(of: Self.constraints.union([.or, .and])) }
}
