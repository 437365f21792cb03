package import LockboxCore
import LockboxPlatform

extension LockboxError {
    /// The error for a result code of the Keychain. Its ``osStatus`` is that code.
    ///
    /// - Parameters:
    ///   - status: The result code.
    ///   - operation: The call.
    ///   - accessibility: The class of the item that was to be stored. Nil for a read or a removal.
    package init(_ status: Int32, _ operation: String, _ accessibility: Accessibility?) {
        let keychain = "the Keychain"
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
