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
        case .conflict, .notABackup, .userCanceled, .slotRefused: .conflict
        case .missingKeyPrefix, .invalidKey, .invalidAttribute, .valueTooLarge, .encodingFailed: .usage
        case .unsafePermissions, .storageFailure, .notEnoughMemory: .inputOutput
        case .unreadable, .readOnly, .lockTimeout, .storeReplaced: .inputOutput
        case .notReachable, .accessDenied, .outcomeUnknown, .notSupported, .keychainFailure: .inputOutput
        @unknown default: .inputOutput
        }
    }

    /// The message. Replaces the library's message where that refers to Swift calls.
    var advice: String {
        switch self {
        case .duplicateItem(let key):
            "An item for the key \(String(reflecting: key)) already exists. Nothing was changed."
        case .interactionNotAllowed(let accessibility):
            "Items of the class \(accessibility) are locked. Run `lockbox unlock`, or use --passcode-file."
        case .passcodeNotSet:
            "The store has no passcode, but this needs one. Set it with `lockbox passcode set`."
        case .passcodeAlreadySet:
            "The store already has a passcode. Use `lockbox passcode change` or `lockbox passcode remove`."
        case .wrongPasscode: "The passcode is wrong. Nothing was changed."
        case .invalidPasscode(let reason): "The passcode cannot be used: \(reason). Nothing was changed."
        case .invalidDeviceKey(let source, let reason):
            "The device key (\(source.onOneLine)) cannot be used: \(reason). Nothing was changed."
        case .decodingFailed(let key, _, _):
            "The value for the key \(String(reflecting: key)) is not a valid JSON string. Use --json to print it as it is stored."
        case .requirementNotMet(let record, let reason):
            "\(record.onOneLine) is refused: \(reason). Somebody may have replaced it. Check the store, or leave out the option "
                + "that requires this. Nothing was changed."
        case .slotNotFound(let slot):
            "The store has no slot \(slot.onOneLine). `lockbox slots` shows what unlocks it."
        case .rolledBack(let record, let reason) where record.contains("://"):
            "\(record.onOneLine) is older than before: \(reason). Check the cluster for a restored snapshot. Nothing was changed."
        case .rolledBack(let record, let reason) where !record.hasSuffix("/keybag"):
            "\(record.onOneLine) does not match the keys of the store: \(reason). Somebody may have put back an old keybag. "
                + "Restore the newest copy of the whole store, or remove the item. Nothing was changed."
        case .rolledBack(let record, let reason):
            "\(record.onOneLine) does not match what was seen before: \(reason). Somebody may have put back an old copy. "
                + "If you restored it yourself, run `lockbox accept-restored`. Nothing was changed."
        case .missing(let record) where record.hasSuffix("/device-key"):
            "\(record.onOneLine) is missing. If the device key is kept elsewhere, "
                + "use --device-key-file; otherwise restore it from a copy of the store. Nothing was changed."
        default: description
        }
    }
}
