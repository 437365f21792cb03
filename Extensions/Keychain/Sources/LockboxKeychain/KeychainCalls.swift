@_exported public import LockboxCore
import LockboxPlatform

/// The four calls of Apple's Keychain that this product uses, as functions of Swift values.
///
/// ``SystemKeychain`` makes them. `KeychainSimulator`, in `LockboxTesting`, answers them on every system. Names and
/// codes are in ``KeychainName`` and ``KeychainStatus``.
public protocol KeychainCalls: Sendable {
    /// A query or an item's attributes, by the names in ``KeychainName``.
    typealias Attributes = [String: KeychainValue]

    /// `SecItemAdd`. Asks for no result.
    ///
    /// - Parameter attributes: The item's class, attributes and value.
    /// - Returns: A result code.
    func add(_ attributes: Attributes) -> Int32

    /// `SecItemCopyMatching`.
    ///
    /// - Parameter query: The items to look for, and the parts to return.
    /// - Returns: A result code, and the items in no particular order. If the query asks for one part only, each has
    ///   only that part, under the name ``KeychainName/valueData`` or ``KeychainName/valuePersistentRef``. If it asks
    ///   for nothing, there are none.
    func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes])

    /// `SecItemUpdate`: changes all items that match, or none.
    ///
    /// - Parameters:
    ///   - query: The items to look for.
    ///   - attributes: The changes.
    /// - Returns: A result code.
    func update(_ query: Attributes, _ attributes: Attributes) -> Int32

    /// `SecItemDelete`: removes all items that match.
    ///
    /// - Parameter query: The items to look for.
    /// - Returns: A result code.
    func delete(_ query: Attributes) -> Int32
}

extension LockboxError {
    /// The error for a result code of the Keychain. The code of its `NSError` is that one.
    ///
    /// - Parameters:
    ///   - status: The result code.
    ///   - operation: The call.
    ///   - accessibility: The class of the item that was to be stored, or nil for a read or a removal.
    package init(_ status: Int32, _ operation: String, _ accessibility: Accessibility?) {
        let keychain: LockboxError.Subject = "the Keychain"
        func other(_ reason: String) -> LockboxError {
            .keychainFailure(operation: operation, status: status, reason: reason)
        }
        self =
            switch status {
            case KeychainStatus.interactionNotAllowed: .interactionNotAllowed(accessibility ?? .whenUnlocked)
            case KeychainStatus.authenticationFailed where accessibility == .whenPasscodeSetThisDeviceOnly:
                .passcodeNotSet
            case KeychainStatus.authenticationFailed:
                .accessDenied(
                    endpoint: keychain,
                    reason:
                        "the user could not be authenticated, or no passcode or biometry is set up; set one up, or try again"
                )
            case KeychainStatus.userCanceled: .userCanceled
            case KeychainStatus.notAvailable:
                .notReachable(endpoint: keychain, reason: "this system, or this session, has no Keychain")
            case KeychainStatus.diskFull:
                .storageFailure(operation: operation, path: keychain, errno: ENOSPC)
            case KeychainStatus.inputOutput:
                .storageFailure(operation: operation, path: keychain, errno: EIO)
            case KeychainStatus.missingEntitlement:
                other(
                    "the program has no entitlement for the Keychain, or not for this access group; sign it with one"
                )
            case KeychainStatus.needsUpgrade:
                other("the Keychain waits for the device to be unlocked; unlock it and try again")
            case KeychainStatus.duplicateItem:
                other("another item has the same service and account; use another prefix or key")
            default: other("see SecBase.h for its meaning")
            }
    }
}

extension KeychainBackend: CustomStringConvertible, CustomReflectable {
    /// The type's name and the type of the calls. Does not show any items.
    public var description: String { "KeychainBackend(\(type(of: calls)))" }

    /// Keeps `dump(_:)` from showing the calls.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

/// Result codes of the Keychain's calls (`SecBase.h`).
public enum KeychainStatus {
    /// `errSecSuccess`. The call succeeded.
    public static let success: Int32 = 0

    /// `errSecParam`. The query or an attribute is not valid.
    public static let parameter: Int32 = -50

    /// `errSecUserCanceled`. The user dismissed a prompt.
    public static let userCanceled: Int32 = -128

    /// `errSecNotAvailable`. There is no Keychain.
    public static let notAvailable: Int32 = -25291

    /// `errSecAuthFailed`. The device has no passcode, which the class needs; or the user could not be authenticated.
    public static let authenticationFailed: Int32 = -25293

    /// `errSecDuplicateItem`. Another item has the same primary key.
    public static let duplicateItem: Int32 = -25299

    /// `errSecItemNotFound`. No item matches.
    public static let itemNotFound: Int32 = -25300

    /// `errSecNoSuchAttr`. The class has no such attribute.
    public static let noSuchAttribute: Int32 = -25303

    /// `errSecNoSuchClass`. There is no such class.
    public static let noSuchClass: Int32 = -25306

    /// `errSecInteractionNotAllowed`. The item is locked, or the user would have to be asked.
    public static let interactionNotAllowed: Int32 = -25308

    /// `errSecMissingEntitlement`. The program may not use the Keychain, or not this access group.
    public static let missingEntitlement: Int32 = -34018

    /// `errSecUpgradePending`. The Keychain's database waits for an unlock to be upgraded.
    public static let needsUpgrade: Int32 = -34019

    /// `errSecDiskFull`. The disk is full.
    public static let diskFull: Int32 = -34

    /// `errSecIO`. Reading or writing failed.
    public static let inputOutput: Int32 = -36

    /// `errSecUnimplemented`. The call is not supported.
    public static let unimplemented: Int32 = -4
}

// So that an app that stores its items in the Keychain only needs no other product, and no library.

/// The conditions under which the Keychain returns an item: the flags of `SecAccessControlCreateWithFlags`, with the
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
