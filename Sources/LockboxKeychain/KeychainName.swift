/// The names and values of the Keychain's constants (`SecItemConstants.c` in Apple's Security), which its dictionaries
/// contain. A name is Apple's without the first letters.
public enum KeychainName {
    // MARK: Keys of queries

    /// `kSecClass`.
    public static let `class` = "class"

    /// `kSecMatchLimit`.
    public static let matchLimit = "m_Limit"

    /// `kSecReturnData`.
    public static let returnData = "r_Data"

    /// `kSecReturnAttributes`.
    public static let returnAttributes = "r_Attributes"

    /// `kSecReturnRef`.
    public static let returnRef = "r_Ref"

    /// `kSecReturnPersistentRef`.
    public static let returnPersistentRef = "r_PersistentRef"

    /// `kSecValueData`.
    public static let valueData = "v_Data"

    /// `kSecValueRef`.
    public static let valueRef = "v_Ref"

    /// `kSecValuePersistentRef`.
    public static let valuePersistentRef = "v_PersistentRef"

    /// `kSecUseAuthenticationUI`.
    public static let useAuthenticationUI = "u_AuthUI"

    /// `kSecUseAuthenticationContext`.
    public static let useAuthenticationContext = "u_AuthCtx"

    /// `kSecUseDataProtectionKeychain`.
    public static let useDataProtectionKeychain = "nleg"

    // MARK: Values of queries

    /// `kSecMatchLimitOne`.
    public static let matchLimitOne = "m_LimitOne"

    /// `kSecMatchLimitAll`.
    public static let matchLimitAll = "m_LimitAll"

    /// `kSecUseAuthenticationUIAllow`.
    public static let useAuthenticationUIAllow = "u_AuthUIA"

    /// `kSecUseAuthenticationUIFail`.
    public static let useAuthenticationUIFail = "u_AuthUIF"

    /// `kSecUseAuthenticationUISkip`.
    public static let useAuthenticationUISkip = "u_AuthUIS"

    /// `kSecAttrSynchronizableAny`.
    public static let synchronizableAny = "syna"

    // MARK: Classes

    /// `kSecClassGenericPassword`.
    public static let classGenericPassword = "genp"

    /// `kSecClassInternetPassword`.
    public static let classInternetPassword = "inet"

    /// `kSecClassCertificate`.
    public static let classCertificate = "cert"

    /// `kSecClassKey`.
    public static let classKey = "keys"

    /// `kSecClassIdentity`.
    public static let classIdentity = "idnt"

    // MARK: Attributes

    /// `kSecAttrAccessGroup`.
    public static let attrAccessGroup = "agrp"

    /// `kSecAttrAccessible`.
    public static let attrAccessible = "pdmn"

    /// `kSecAttrAccessControl`.
    public static let attrAccessControl = "accc"

    /// `kSecAttrSynchronizable`.
    public static let attrSynchronizable = "sync"

    /// `kSecAttrCreationDate`.
    public static let attrCreationDate = "cdat"

    /// `kSecAttrModificationDate`.
    public static let attrModificationDate = "mdat"

    /// `kSecAttrLabel`.
    public static let attrLabel = "labl"

    /// `kSecAttrComment`.
    public static let attrComment = "icmt"

    /// `kSecAttrDescription`.
    public static let attrDescription = "desc"

    /// `kSecAttrCreator`.
    public static let attrCreator = "crtr"

    /// `kSecAttrType`.
    public static let attrType = "type"

    /// `kSecAttrAccount`.
    public static let attrAccount = "acct"

    /// `kSecAttrService`.
    public static let attrService = "svce"

    /// `kSecAttrGeneric`.
    public static let attrGeneric = "gena"

    /// `kSecAttrServer`.
    public static let attrServer = "srvr"

    /// `kSecAttrSecurityDomain`.
    public static let attrSecurityDomain = "sdmn"

    /// `kSecAttrProtocol`.
    public static let attrProtocol = "ptcl"

    /// `kSecAttrAuthenticationType`.
    public static let attrAuthenticationType = "atyp"

    /// `kSecAttrPort`.
    public static let attrPort = "port"

    /// `kSecAttrPath`.
    public static let attrPath = "path"
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
