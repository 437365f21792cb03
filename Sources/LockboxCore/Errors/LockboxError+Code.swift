extension LockboxError {
    /// The case of a ``LockboxError``, without its payload.
    ///
    /// This is a struct rather than an enum so that later versions can add codes.
    public struct Code: RawRepresentable, Sendable, Hashable, Codable, CustomStringConvertible {
        /// The name of the case.
        public let rawValue: String

        /// Creates a code from its name, known or not.
        ///
        /// - Parameter rawValue: The name of the case.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The name of the case.
        public var description: String { rawValue }

        /// ``LockboxError/itemNotFound(key:)``.
        public static let itemNotFound = Code(rawValue: "itemNotFound")

        /// ``LockboxError/duplicateItem(key:)``.
        public static let duplicateItem = Code(rawValue: "duplicateItem")

        /// ``LockboxError/interactionNotAllowed(_:)``.
        public static let interactionNotAllowed = Code(rawValue: "interactionNotAllowed")

        /// ``LockboxError/missingKeyPrefix``.
        public static let missingKeyPrefix = Code(rawValue: "missingKeyPrefix")

        /// ``LockboxError/invalidKey(reason:)``.
        public static let invalidKey = Code(rawValue: "invalidKey")

        /// ``LockboxError/invalidAttribute(name:reason:)``.
        public static let invalidAttribute = Code(rawValue: "invalidAttribute")

        /// ``LockboxError/valueTooLarge(size:limit:)``.
        public static let valueTooLarge = Code(rawValue: "valueTooLarge")

        /// ``LockboxError/encodingFailed(key:underlying:)``.
        public static let encodingFailed = Code(rawValue: "encodingFailed")

        /// ``LockboxError/decodingFailed(key:type:underlying:)``.
        public static let decodingFailed = Code(rawValue: "decodingFailed")

        /// ``LockboxError/typeMismatch(key:stored:type:)``.
        public static let typeMismatch = Code(rawValue: "typeMismatch")

        /// ``LockboxError/passcodeNotSet``.
        public static let passcodeNotSet = Code(rawValue: "passcodeNotSet")

        /// ``LockboxError/passcodeAlreadySet``.
        public static let passcodeAlreadySet = Code(rawValue: "passcodeAlreadySet")

        /// ``LockboxError/wrongPasscode``.
        public static let wrongPasscode = Code(rawValue: "wrongPasscode")

        /// ``LockboxError/slotNotFound(slot:)``.
        public static let slotNotFound = Code(rawValue: "slotNotFound")

        /// ``LockboxError/slotRefused(reason:)``.
        public static let slotRefused = Code(rawValue: "slotRefused")

        /// ``LockboxError/invalidPasscode(reason:)``.
        public static let invalidPasscode = Code(rawValue: "invalidPasscode")

        /// ``LockboxError/notEnoughMemory(bytes:)``.
        public static let notEnoughMemory = Code(rawValue: "notEnoughMemory")

        /// ``LockboxError/invalidDeviceKey(source:reason:)``.
        public static let invalidDeviceKey = Code(rawValue: "invalidDeviceKey")

        /// ``LockboxError/deviceKeyMismatch(source:)``.
        public static let deviceKeyMismatch = Code(rawValue: "deviceKeyMismatch")

        /// ``LockboxError/missing(record:)``.
        public static let missing = Code(rawValue: "missing")

        /// ``LockboxError/corrupt(record:reason:)``.
        public static let corrupt = Code(rawValue: "corrupt")

        /// ``LockboxError/authenticationFailed(record:)``.
        public static let authenticationFailed = Code(rawValue: "authenticationFailed")

        /// ``LockboxError/unsupportedVersion(record:version:)``.
        public static let unsupportedVersion = Code(rawValue: "unsupportedVersion")

        /// ``LockboxError/rolledBack(record:reason:)``.
        public static let rolledBack = Code(rawValue: "rolledBack")

        /// ``LockboxError/requirementNotMet(record:reason:)``.
        public static let requirementNotMet = Code(rawValue: "requirementNotMet")

        /// ``LockboxError/notABackup(path:)``.
        public static let notABackup = Code(rawValue: "notABackup")

        /// ``LockboxError/sourceRefused(path:reason:)``.
        public static let sourceRefused = Code(rawValue: "sourceRefused")

        /// ``LockboxError/unsafePermissions(path:reason:)``.
        public static let unsafePermissions = Code(rawValue: "unsafePermissions")

        /// ``LockboxError/invalidLocation(location:reason:)``.
        public static let invalidLocation = Code(rawValue: "invalidLocation")

        /// ``LockboxError/storageFailure(operation:path:errno:)``.
        public static let storageFailure = Code(rawValue: "storageFailure")

        /// ``LockboxError/unreadable(record:reason:)``.
        public static let unreadable = Code(rawValue: "unreadable")

        /// ``LockboxError/readOnly(location:reason:)``.
        public static let readOnly = Code(rawValue: "readOnly")

        /// ``LockboxError/lockTimeout(location:)``.
        public static let lockTimeout = Code(rawValue: "lockTimeout")

        /// ``LockboxError/storeReplaced(location:)``.
        public static let storeReplaced = Code(rawValue: "storeReplaced")

        /// ``LockboxError/notReachable(endpoint:reason:)``.
        public static let notReachable = Code(rawValue: "notReachable")

        /// ``LockboxError/accessDenied(endpoint:reason:)``.
        public static let accessDenied = Code(rawValue: "accessDenied")

        /// ``LockboxError/userCanceled``.
        public static let userCanceled = Code(rawValue: "userCanceled")

        /// ``LockboxError/keychainFailure(operation:status:reason:)``.
        public static let keychainFailure = Code(rawValue: "keychainFailure")

        /// ``LockboxError/conflict(record:)``.
        public static let conflict = Code(rawValue: "conflict")

        /// ``LockboxError/outcomeUnknown(record:reason:)``.
        public static let outcomeUnknown = Code(rawValue: "outcomeUnknown")

        /// ``LockboxError/notSupported(operation:)``.
        public static let notSupported = Code(rawValue: "notSupported")
    }

    /// The case of this error.
    public var code: Code {
        switch self {
        case .itemNotFound: .itemNotFound
        case .duplicateItem: .duplicateItem
        case .interactionNotAllowed: .interactionNotAllowed
        case .missingKeyPrefix: .missingKeyPrefix
        case .invalidKey: .invalidKey
        case .invalidAttribute: .invalidAttribute
        case .valueTooLarge: .valueTooLarge
        case .encodingFailed: .encodingFailed
        case .decodingFailed: .decodingFailed
        case .typeMismatch: .typeMismatch
        case .passcodeNotSet: .passcodeNotSet
        case .passcodeAlreadySet: .passcodeAlreadySet
        case .wrongPasscode: .wrongPasscode
        case .slotNotFound: .slotNotFound
        case .slotRefused: .slotRefused
        case .invalidPasscode: .invalidPasscode
        case .notEnoughMemory: .notEnoughMemory
        case .invalidDeviceKey: .invalidDeviceKey
        case .deviceKeyMismatch: .deviceKeyMismatch
        case .missing: .missing
        case .corrupt: .corrupt
        case .authenticationFailed: .authenticationFailed
        case .unsupportedVersion: .unsupportedVersion
        case .rolledBack: .rolledBack
        case .requirementNotMet: .requirementNotMet
        case .notABackup: .notABackup
        case .sourceRefused: .sourceRefused
        case .unsafePermissions: .unsafePermissions
        case .invalidLocation: .invalidLocation
        case .storageFailure: .storageFailure
        case .unreadable: .unreadable
        case .readOnly: .readOnly
        case .lockTimeout: .lockTimeout
        case .storeReplaced: .storeReplaced
        case .notReachable: .notReachable
        case .accessDenied: .accessDenied
        case .userCanceled: .userCanceled
        case .keychainFailure: .keychainFailure
        case .conflict: .conflict
        case .outcomeUnknown: .outcomeUnknown
        case .notSupported: .notSupported
        }
    }
}
