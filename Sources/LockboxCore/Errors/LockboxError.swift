import LockboxPlatform

/// Why a call did not do what it was asked.
///
/// `nil` from a reading call means that there is no such item, and nothing else; every other reason is one of
/// these. After any of them the store is as it was, unless the case says otherwise.
///
/// ```swift
/// do {
///     token = try lockbox.unarchiveObject(String.self, forKey: "token")
/// } catch LockboxError.interactionNotAllowed {
///     // locked: ask for the passcode, keep the user logged in
/// }
/// ```
///
/// Descriptions name keys, records and paths, never a value. The `underlying` errors come from the encoder or
/// decoder and may quote the value: match on them, but do not log them. Cases may be added in a minor version.
public enum LockboxError: Error {
    /// A write with ``WritePolicy/updateOnly``, or a change of accessibility, found no such item.
    case itemNotFound(key: String)

    /// A write with ``WritePolicy/addOnly`` found the key taken.
    case duplicateItem(key: String)

    /// The item's class is locked now. The item is there; unlock the store and try again.
    case interactionNotAllowed(Accessibility)

    /// The store has no passcode, which this class, or this call, needs.
    case passcodeNotSet

    /// The store has a passcode already.
    case passcodeAlreadySet

    /// The passcode is not the store's.
    case wrongPasscode

    /// The passcode could not be had from its source, or cannot be one.
    case invalidPasscode(reason: String)

    /// There is not the memory that the passcode's strength takes. It is never made weaker for that.
    case notEnoughMemory(bytes: Int)

    /// There is no bundle identifier, and no key prefix was configured.
    case missingKeyPrefix

    /// The key or the prefix is empty or too long.
    case invalidKey(reason: String)

    /// A date or a text cannot be stored as an attribute.
    case invalidAttribute(name: String, reason: String)

    /// The encoded value has more bytes than an item can hold.
    case valueTooLarge(size: Int, limit: Int)

    /// The value's encoder threw, or made something that could not be decoded again.
    case encodingFailed(key: String, underlying: any Error)

    /// The stored value is not of the type asked for. The item stays as it is.
    case decodingFailed(key: String, type: String, underlying: any Error)

    /// The stored value has another format than the type or coder asked for. The item stays as it is.
    case typeMismatch(key: String, stored: ValueFormat, type: String)

    /// A record does not have the form that it must have: cut short, grown, or something else altogether.
    case corrupt(record: String, reason: String)

    /// A record has the right form, but its bytes were changed, or it belongs to another key, prefix or store.
    case authenticationFailed(record: String)

    /// The device key is not the one that this store was made with.
    case deviceKeyMismatch(path: String)

    /// A record was written by a newer version of Lockbox, or for another cipher suite, whose number this is. It is
    /// never rewritten by this version.
    case unsupportedVersion(record: String, version: Int)

    /// A file or folder of the store could be read or changed by others, or is not a plain file at all.
    case unsafePermissions(path: String, reason: String)

    /// A system call failed. `errno` is its code.
    ///
    /// If the operation is `fsync` on a folder, the change is in place but may not survive a power cut. If it is
    /// `unlink`, some of several items may have been removed. Otherwise nothing changed.
    case storageFailure(operation: String, path: String, errno: Int32)
}

extension LockboxError: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// What went wrong and what to do, in a sentence or two. Stable, and without any value.
    public var description: String {
        switch self {
        case .itemNotFound(let key):
            "There is no item for the key \(quoted(key))."
        case .duplicateItem(let key):
            "There is an item for the key \(quoted(key)) already. Write with the policy .replace to overwrite it."
        case .interactionNotAllowed(let accessibility):
            "Items of the class \(accessibility) are locked now. Unlock the store and try again."
        case .passcodeNotSet:
            "The store has no passcode. Set one first, or use another class than whenPasscodeSetThisDeviceOnly."
        case .passcodeAlreadySet:
            "The store has a passcode already. Change or remove it instead."
        case .wrongPasscode:
            "The passcode is wrong. Nothing was changed."
        case .invalidPasscode(let reason):
            "There is no usable passcode: \(reason)."
        case .notEnoughMemory(let bytes):
            "The passcode takes \(bytes) bytes of memory to check, which could not be had. Raise the limit, "
                + "or change the passcode to one of less strength on a larger machine."
        case .missingKeyPrefix:
            "This program has no bundle identifier. Call Lockbox.configure(keyPrefix:) once at the start, "
                + "or set LOCKBOX_KEY_PREFIX."
        case .invalidKey(let reason):
            "Invalid key: \(reason)."
        case .invalidAttribute(let name, let reason):
            "Invalid \(name): \(reason)."
        case .valueTooLarge(let size, let limit):
            "The encoded value has \(size) bytes; the limit is \(limit). Keep it in a file of its own, "
                + "encrypted with a key that you archive here."
        case .encodingFailed(let key, _):
            "The value for the key \(quoted(key)) could not be encoded. The old value, if any, is unchanged."
        case .decodingFailed(let key, let type, _):
            "The value for the key \(quoted(key)) could not be decoded as \(type). "
                + "Ask for the type that was archived."
        case .typeMismatch(let key, let stored, let type):
            "The value for the key \(quoted(key)) is stored as \(stored) and cannot be read as \(type). "
                + "Ask for the type that was archived."
        case .corrupt(let record, let reason):
            "\(record) is damaged: \(reason). Restore it from a backup; an item can also be removed or overwritten."
        case .authenticationFailed(let record):
            "\(record) was changed, or belongs to another key, prefix or store. Restore it from a backup; "
                + "an item can also be removed or overwritten."
        case .deviceKeyMismatch(let path):
            "The device key \(path) is not the one this store was made with. Put the right one back; "
                + "nothing was changed."
        case .unsupportedVersion(let record, let version):
            "\(record) is of a format, number \(version), that this Lockbox does not know. "
                + "Update the program; nothing was changed."
        case .unsafePermissions(let path, let reason):
            "\(path) is not safe to use: \(reason)."
        case .storageFailure("flock", let path, EWOULDBLOCK):
            "Another process has held the lock \(path) all the time. See what it is doing, and try again."
        case .storageFailure("stat", let path, ESTALE):
            "\(path) was moved or replaced while it was open. Restart the program to use what is there now."
        case .storageFailure(let operation, let path, let code):
            "\(operation) failed on \(path): \(String(cString: strerror(code))) (errno \(code))."
        }
    }

    /// As ``description``, so that no way of printing an error shows what its `underlying` error may quote.
    public var debugDescription: String { description }

    /// Keeps `dump(_:)` from walking into the `underlying` error.
    public var customMirror: Mirror { Mirror(self, children: ["description": description]) }

    private func quoted(_ key: String) -> String { String(reflecting: key) }
}

extension LockboxError: LocalizedError {
    /// As ``description``.
    public var errorDescription: String? { description }

    /// The domain of the `NSError` this becomes. As `CustomNSError` would give it, which is in full Foundation only.
    public var _domain: String { "LockboxError" }

    /// The code of the `NSError` this becomes: ``osStatus``.
    public var _code: Int { Int(osStatus) }

    /// The nearest Keychain result code, for code that used to check those.
    public var osStatus: Int32 {
        switch self {
        case .itemNotFound: -25300  // errSecItemNotFound
        case .duplicateItem: -25299  // errSecDuplicateItem
        case .interactionNotAllowed: -25308  // errSecInteractionNotAllowed
        case .passcodeNotSet, .wrongPasscode: -25293  // errSecAuthFailed
        case .authenticationFailed, .deviceKeyMismatch: -25293  // errSecAuthFailed
        case .passcodeAlreadySet: -25299  // errSecDuplicateItem
        case .notEnoughMemory: -108  // errSecAllocate
        case .missingKeyPrefix, .invalidKey, .invalidAttribute, .invalidPasscode: -50  // errSecParam
        case .valueTooLarge: -25302  // errSecDataTooLarge
        case .encodingFailed: -67694  // errSecInvalidValue
        case .decodingFailed, .typeMismatch: -26275  // errSecDecode
        case .corrupt: -67701  // errSecInvalidRecord
        case .unsupportedVersion: -67704  // errSecIncompatibleVersion
        case .unsafePermissions: -61  // errSecWrPerm
        case .storageFailure(_, _, let code): code == ENOSPC ? -34 : -36  // errSecDiskFull, errSecIO
        }
    }
}
