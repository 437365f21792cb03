import Lockbox

extension LockboxError {
    /// The message. Replaces the library's message where that is about Swift calls, or leaves open what only the command knows.
    var advice: String { passcodeAdvice ?? recordAdvice ?? callAdvice ?? description }

    /// About passcodes, keys and slots.
    private var passcodeAdvice: String? {
        switch self {
        case .interactionNotAllowed(let accessibility):
            "Items of the class \(accessibility) are locked. Run `lockbox unlock`, or use --passcode-file."
        case .passcodeNotSet:
            "The store has no passcode, but this needs one. Set it with `lockbox passcode set`."
        case .passcodeAlreadySet:
            "The store already has a passcode. Use `lockbox passcode change` or `lockbox passcode remove`."
        case .wrongPasscode:
            "The passcode is wrong. Check it and try again, or use a recovery code: see `lockbox unlock --help`. "
                + "Nothing was changed."
        case .invalidPasscode(let reason): "The passcode cannot be used: \(reason). Nothing was changed."
        case .notEnoughMemory(let bytes):
            "Argon2id needs \(bytes) bytes of memory, which are not available. Raise the memory limit, or run "
                + "`lockbox passcode change --strength interactive` on a machine that has enough memory."
        case .slotNotFound(let slot):
            "The store has no slot \(slot.onOneLine). `lockbox slots` shows what unlocks it."
        case .invalidDeviceKey(let source, let reason):
            "The device key (\(source.onOneLine)) cannot be used: \(reason). Nothing was changed."
        case .deviceKeyMismatch(let source):
            "The device key (\(source.onOneLine)) does not belong to this store. Put the right one back, or name it with "
                + "--device-key-file. Nothing was changed."
        default: nil
        }
    }

    /// About records that cannot be read.
    private var recordAdvice: String? {
        switch self {
        case .unsupportedVersion(let record, let version):
            "\(record.onOneLine) has the format or cipher suite \(version), which this version of lockbox does not know. "
                + "Update lockbox. Nothing was changed."
        case .requirementNotMet(let record, let reason):
            "\(record.onOneLine) is refused: \(reason). Somebody may have replaced it. Check the store, or leave out the option "
                + "that requires this. Nothing was changed."
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
        default: nil
        }
    }

    /// About what was asked for, and the storage.
    private var callAdvice: String? {
        switch self {
        case .duplicateItem(let key):
            "An item for the key \(String(reflecting: key)) already exists. Nothing was changed."
        case .missingKeyPrefix: "There is no key prefix. Use --prefix."
        case .valueTooLarge(let size, let limit):
            "The value has \(size) bytes; the limit is \(limit). Encrypt it into a file, and store the file's key here."
        case .decodingFailed(let key, _, _):
            "The value for the key \(String(reflecting: key)) is not a valid JSON string. Use --json to print it as it is stored."
        case .typeMismatch(let key, let stored, let type):
            "The value for the key \(String(reflecting: key)) is stored as \(stored) and cannot be read as \(type). "
                + "Use `lockbox get` to write it as it is stored."
        case .storeReplaced(let location):
            "\(location.onOneLine) was moved or replaced while it was open. Run the command again to use the store that is "
                + "there now."
        case .conflict(let record):
            "Another writer changed \(record.onOneLine) at the same time, and that change is kept. Run the command again."
        // The library's message says that the change was made.
        case .outcomeUnknown(let record, let reason) where !description.hasPrefix("\(record) was changed"):
            "It is not known whether \(record.onOneLine) was changed: \(reason). Check what is stored before you run the "
                + "command again."
        case .notSupported(let operation): "Not supported: \(operation). Nothing was changed."
        default: nil
        }
    }
}
