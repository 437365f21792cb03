public import LockboxPlatform

extension LockboxError: LocalizedError {
    /// Same as ``description``.
    public var errorDescription: String? { description }

    /// The domain of the `NSError` that this error is bridged to. Implemented directly, because `CustomNSError`
    /// needs full Foundation.
    public var _domain: String { "LockboxError" }

    /// The code of the `NSError` that this error is bridged to: ``osStatus``.
    public var _code: Int { Int(osStatus) }

    /// The closest Keychain result code, for code that compares `OSStatus` values.
    public var osStatus: Int32 {
        switch self {
        case .itemNotFound, .slotNotFound: -25300  // errSecItemNotFound
        case .duplicateItem, .passcodeAlreadySet: -25299  // errSecDuplicateItem
        case .interactionNotAllowed: -25308  // errSecInteractionNotAllowed
        case .passcodeNotSet, .wrongPasscode: -25293  // errSecAuthFailed
        case .authenticationFailed, .deviceKeyMismatch, .accessDenied: -25293  // errSecAuthFailed
        case .notEnoughMemory: -108  // errSecAllocate
        case .missingKeyPrefix, .invalidKey, .invalidAttribute, .invalidLocation: -50  // errSecParam
        case .invalidPasscode, .invalidDeviceKey, .slotRefused: -50  // errSecParam
        case .valueTooLarge: -25302  // errSecDataTooLarge
        case .encodingFailed: -67694  // errSecInvalidValue
        case .decodingFailed, .typeMismatch: -26275  // errSecDecode
        case .missing: -25294  // errSecNoSuchKeychain
        case .corrupt: -67701  // errSecInvalidRecord
        case .unsupportedVersion: -67704  // errSecIncompatibleVersion
        case .rolledBack, .requirementNotMet: -67808  // errSecVerifyFailed
        case .notABackup, .sourceRefused: -25257  // errSecUnknownFormat
        case .unsafePermissions: -61  // errSecWrPerm
        case .storageFailure(_, _, ENOSPC): -34  // errSecDiskFull
        case .storageFailure, .unreadable, .lockTimeout, .storeReplaced: -36  // errSecIO
        case .readOnly: -25292  // errSecReadOnly
        case .notReachable: -25291  // errSecNotAvailable
        case .userCanceled: -128  // errSecUserCanceled
        case .keychainFailure(_, let status, _): status
        case .conflict: -25304  // errSecInvalidItemRef
        case .outcomeUnknown: -67846  // errSecRequestLost
        case .notSupported: -4  // errSecUnimplemented
        }
    }
}
