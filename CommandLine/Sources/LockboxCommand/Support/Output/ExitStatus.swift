import Lockbox

/// The exit status. Documented, because scripts rely on it.
enum ExitStatus: CInt {
    case done = 0
    case noSuchItem = 1
    case locked = 2
    case damaged = 3
    case conflict = 4
    case usage = 64
    case inputOutput = 74
}

/// Ends the process. Needed where the parser's `exit` hides the C library's.
func endProcess(_ status: CInt) -> Never { exit(status) }

extension LockboxError {
    var status: ExitStatus {
        switch self {
        case .itemNotFound, .slotNotFound: .noSuchItem
        case .interactionNotAllowed, .passcodeNotSet, .wrongPasscode, .invalidPasscode: .locked
        case .corrupt, .authenticationFailed, .deviceKeyMismatch, .unsupportedVersion: .damaged
        case .missing, .rolledBack, .requirementNotMet, .invalidDeviceKey: .damaged
        case .duplicateItem, .passcodeAlreadySet, .typeMismatch, .decodingFailed: .conflict
        case .conflict, .notABackup, .sourceRefused, .userCanceled, .slotRefused: .conflict
        case .missingKeyPrefix, .invalidKey, .invalidAttribute, .valueTooLarge, .encodingFailed: .usage
        case .invalidLocation: .usage
        case .unsafePermissions, .storageFailure, .notEnoughMemory: .inputOutput
        case .unreadable, .readOnly, .lockTimeout, .storeReplaced: .inputOutput
        case .notReachable, .accessDenied, .outcomeUnknown, .notSupported, .keychainFailure: .inputOutput
        @unknown default: .inputOutput
        }
    }
}
