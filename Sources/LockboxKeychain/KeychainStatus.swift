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
