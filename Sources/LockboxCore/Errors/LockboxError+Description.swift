import LockboxPlatform

extension LockboxError {
    /// The record, file or folder that the error is about, if it is about one.
    package var location: String? {
        switch self {
        case .corrupt(let location, _), .authenticationFailed(let location), .missing(let location),
            .unsupportedVersion(let location, _), .unsafePermissions(let location, _),
            .storageFailure(_, let location, _), .rolledBack(let location, _),
            .requirementNotMet(let location, _), .unreadable(let location, _), .readOnly(let location, _),
            .lockTimeout(let location), .storeReplaced(let location):
            location
        default: nil
        }
    }
}

extension LockboxError: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Says what went wrong and what to do about it. Never contains a value.
    public var description: String {
        switch self {
        case .itemNotFound(let key):
            "There is no item for the key \(quoted(key))."
        case .duplicateItem(let key):
            "An item for the key \(quoted(key)) already exists. Use the policy .replace to overwrite it."
        case .interactionNotAllowed(let accessibility):
            "Items of the class \(accessibility) are locked. Unlock the store and try again."
        case .missingKeyPrefix:
            "This program has no bundle identifier. Call Lockbox.configure(keyPrefix:) once at the start, "
                + "or set LOCKBOX_KEY_PREFIX."
        case .invalidKey(let reason):
            "Invalid key: \(reason)."
        case .invalidAttribute(let name, let reason):
            "Invalid \(name): \(reason)."
        case .valueTooLarge(let size, let limit):
            "The encoded value has \(size) bytes; the limit is \(limit). Store it in a file, "
                + "encrypted with a key that you archive here."
        case .encodingFailed(let key, _):
            "The value for the key \(quoted(key)) could not be encoded. The old value, if any, is unchanged."
        case .decodingFailed(let key, let type, _):
            "The value for the key \(quoted(key)) could not be decoded as \(type). "
                + "Ask for the type that was archived."
        case .typeMismatch(let key, let stored, let type):
            "The value for the key \(quoted(key)) is stored as \(stored) and cannot be read as \(type). "
                + "Ask for the type that was archived."
        case .passcodeNotSet:
            "The store has no passcode. Set one, or use a class other than whenPasscodeSetThisDeviceOnly."
        case .passcodeAlreadySet:
            "The store already has a passcode. Change or remove it instead."
        case .wrongPasscode:
            "The passcode is wrong. Nothing was changed."
        case .slotNotFound(let slot):
            "The store has no slot \(slot). List its slots to see what opens it."
        case .slotRefused(let reason):
            "The slot cannot be changed: \(reason). Nothing was changed."
        case .invalidPasscode(let reason):
            "The passcode cannot be used: \(reason)."
        case .notEnoughMemory(let bytes):
            "Checking the passcode needs \(bytes) bytes of memory, which are not available. Raise the memory limit, "
                + "or change the passcode to one of a lower strength on a larger machine."
        case .invalidDeviceKey(let source, let reason):
            "The device key (\(source)) cannot be used: \(reason)."
        case .deviceKeyMismatch(let path):
            "The device key (\(path)) does not belong to this store. Put the right one back; nothing was changed."
        case .missing(let record):
            "\(record) is missing, and the store cannot be opened without it. Restore it from a copy of the store; "
                + "nothing was changed."
        case .corrupt(let record, let reason):
            "\(record) is damaged: \(reason). \(Self.repair)"
        case .authenticationFailed(let record):
            "\(record) was tampered with, or belongs to another key, prefix or store. \(Self.repair)"
        case .unsupportedVersion(let record, let version):
            "\(record) has the format number \(version), which this version of Lockbox does not know. "
                + "Update the program, or use the pre-release that made it; nothing was changed."
        case .rolledBack(let record, let reason):
            "\(record) does not match what was seen before: \(reason). Somebody may have put back an old copy. "
                + "If it was you, accept the restored store; nothing was changed."
        case .requirementNotMet(let record, let reason):
            "\(record) is refused: \(reason). Somebody may have replaced it; nothing was changed."
        case .notABackup(let path):
            "\(path) is not a Lockbox backup. Choose another file; nothing was changed."
        case .unsafePermissions(let path, let reason):
            "\(path) is not safe to use: \(reason)."
        case .unreadable(let record, let reason):
            "\(record) cannot be read: \(reason). Check its owner and permissions, and the disk; nothing was changed."
        case .readOnly(let location, let reason):
            "\(location) cannot be written: \(reason). Check its owner and permissions, and whether the file system is "
                + "mounted read-only; nothing was changed."
        case .lockTimeout(let location):
            "Another process held the lock \(location) for too long. Check what it is doing, and try again."
        case .storeReplaced(let location):
            "\(location) was moved or replaced while it was open. Restart the program to use the store that is there now."
        case .storageFailure(let operation, let path, let code):
            "\(operation) failed on \(path): \(String(cString: strerror(code))) (errno \(code))."
        case .notReachable(let endpoint, let reason):
            "\(endpoint) cannot be reached: \(reason). Check that it is running, and try again; nothing was changed."
        case .accessDenied(let endpoint, let reason):
            "\(endpoint) denied access: \(reason). Nothing was changed."
        case .userCanceled:
            "The user canceled the request. Nothing was changed."
        case .keychainFailure(let operation, let status, let reason):
            "\(operation) failed with the status \(status): \(reason). Nothing was changed."
        case .conflict(let record):
            "Another writer changed \(record) at the same time. Its change is kept. Read it and try again."
        case .outcomeUnknown(let record, let reason):
            "Whether \(record) was changed is not known: \(reason). Check what is stored before you repeat the call."
        case .notSupported(let operation):
            "This backend does not support \(operation). Nothing was changed."
        }
    }

    private static let repair =
        "Restore it from a backup. If it is an item, you can also remove or overwrite it."

    /// Same as ``description``, because the default would print the `underlying` error, which may quote a
    /// value.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from showing the `underlying` error.
    public var customMirror: Mirror { Mirror(self, children: ["description": description]) }

    private func quoted(_ key: String) -> String { String(reflecting: key) }
}
