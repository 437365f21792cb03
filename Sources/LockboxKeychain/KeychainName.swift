/// The names and values of the Keychain's constants (`SecItemConstants.c` in Apple's Security), which its dictionaries
/// contain. Names are Apple's without the prefix `kSec`.
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

    /// `kSecAttrCreator`.
    public static let attrCreator = "crtr"

    /// `kSecAttrAccount`.
    public static let attrAccount = "acct"

    /// `kSecAttrService`.
    public static let attrService = "svce"

    /// `kSecAttrGeneric`.
    public static let attrGeneric = "gena"

    /// `kSecAttrServer`.
    public static let attrServer = "srvr"

    /// `kSecAttrProtocol`.
    public static let attrProtocol = "ptcl"

    /// `kSecAttrAuthenticationType`.
    public static let attrAuthenticationType = "atyp"

    /// `kSecAttrPort`.
    public static let attrPort = "port"
}
