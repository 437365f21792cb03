/// Which of macOS's two keychains a migration reads. Other systems have one, the data-protection keychain.
public struct MacKeychains: OptionSet, Sendable, Hashable {
    /// One bit for each keychain.
    public let rawValue: Int

    /// Creates a set.
    ///
    /// - Parameter rawValue: One bit for each keychain.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The data-protection keychain, the only one on iOS. It needs an entitlement. Without one, `migrate` throws
    /// ``LockboxError/keychainFailure(operation:status:reason:)`` with the status -34018.
    public static let dataProtection = MacKeychains(rawValue: 1)

    /// The file-based keychain, which holds the items of programs that do not set `kSecUseDataProtectionKeychain`. It needs
    /// no entitlement. The system may ask the user before another program's item is read.
    public static let file = MacKeychains(rawValue: 2)

    /// Both. An item that exists in both is refused.
    public static let all: MacKeychains = [.dataProtection, .file]
}
