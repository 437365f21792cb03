public import LockboxPlatform

extension LockboxError {
    /// The record, file or folder that the error is about, if it is about one.
    package var location: String? {
        switch self {
        case .corrupt(let location, _), .authenticationFailed(let location), .missing(let location),
            .unsupportedVersion(let location, _), .unsafePermissions(let location, _),
            .storageFailure(_, let location, _), .rolledBack(let location, _),
            .requirementNotMet(let location, _), .unreadable(let location, _), .readOnly(let location, _),
            .lockTimeout(let location), .storeReplaced(let location), .sourceRefused(let location, _),
            .invalidLocation(let location, _):
            location
        default: nil
        }
    }
}

extension LockboxError: Undescribed {
    /// Says what went wrong and what to do about it. Never contains a value.
    public var description: String { text.sentence }

    private var text: String {
        switch self {
        case .itemNotFound(let key):
            "There is no item for the key \(quoted(key))."
        case .duplicateItem(let key):
            "An item for the key \(quoted(key)) already exists. Use the policy .replace to overwrite it."
        case .interactionNotAllowed(let accessibility):
            "Items of the class \(accessibility) are locked. Unlock the store and try again."
        case .missingKeyPrefix:
            "This program has no key prefix. Call Lockbox.configure(keyPrefix:) once at the start, "
                + "or set LOCKBOX_KEY_PREFIX."
        case .invalidKey(let reason):
            "\(reason.prefix(1).uppercased())\(reason.dropFirst()). Nothing was changed."
        case .invalidAttribute(let name, let reason):
            "Invalid \(name): \(reason). Nothing was changed."
        case .valueTooLarge(let size, let limit):
            "The encoded value has \(size) bytes; the limit is \(limit). Store it in a file, "
                + "encrypted with a key that you archive here."
        case .encodingFailed(let key, let underlying):
            "The value for the key \(quoted(key)) could not be encoded: \(CodingReason(underlying)). "
                + "The old value, if any, is unchanged."
        case .decodingFailed(let key, let type, let underlying):
            "The value for the key \(quoted(key)) could not be decoded as \(type): \(CodingReason(underlying)). "
                + "Ask for the type that was archived, or have \(type) read the older form too."
        case .typeMismatch(let key, .lockbox2, let type):
            "The value for the key \(quoted(key)) was stored by Lockbox 2 and cannot be read as \(type). "
                + "Migrate it with migrate(_:), or read it with the methods of Lockbox 2."
        case .typeMismatch(let key, let stored, let type):
            "The value for the key \(quoted(key)) is stored as \(stored) and cannot be read as \(type). "
                + "Ask for the type that was archived."
        case .passcodeNotSet:
            "The store has no passcode. Set one first. To store an item without a passcode, use a class other than "
                + "whenPasscodeSetThisDeviceOnly."
        case .passcodeAlreadySet:
            "The store already has a passcode. Change or remove it instead."
        case .wrongPasscode:
            "The passcode, recovery code, key or PIN is wrong. Check it and try again. Nothing was changed."
        case .slotNotFound(let slot):
            "The store has no slot \(slot). List its slots to see what unlocks it."
        case .slotRefused(let reason):
            "The slot cannot be changed: \(reason). Nothing was changed."
        case .invalidPasscode(let reason):
            "The passcode, recovery code or PIN cannot be used: \(reason). Nothing was changed."
        case .notEnoughMemory(let bytes):
            "Argon2id needs \(bytes) bytes of memory, which are not available. Raise the memory limit, "
                + "or set the passcode again with a lower strength on a machine that has enough memory."
        case .invalidDeviceKey(let source, let reason):
            "The key (\(source)) cannot be used: \(reason). Nothing was changed."
        case .deviceKeyMismatch(let path):
            "The device key (\(path)) does not belong to this store. Put the right one back. Nothing was changed."
        case .missing(let record):
            "\(record) is missing. If it is the store's keybag or device key, restore it from a copy of the store. "
                + "Nothing was changed."
        case .corrupt(let record, let reason):
            "\(record) is damaged: \(reason). \(Self.repair)"
        case .authenticationFailed(let record):
            "\(record) was tampered with, or belongs to another key, prefix or store. \(Self.repair)"
        case .unsupportedVersion(let record, let version):
            "\(record) has the format or cipher suite \(version), which this version of Lockbox does not know. "
                + "Update the program. Nothing was changed."
        case .rolledBack(let record, let reason):
            "\(record) does not match what was seen before: \(reason). Somebody may have put back an old copy. "
                + "If you restored it yourself, call acceptRestored. Nothing was changed."
        case .requirementNotMet(let record, let reason):
            "\(record) is refused: \(reason). Somebody may have replaced it. Check the store, or change what the program "
                + "requires. Nothing was changed."
        case .notABackup(let path):
            "\(path) is not a Lockbox backup. Choose another file. Nothing was changed."
        case .sourceRefused(let path, let reason):
            "\(path) was refused and is unchanged: \(reason). Correct it, or name another file."
        case .unsafePermissions(let path, let reason):
            "\(path) is not safe to use: \(reason)."
        case .invalidLocation(let location, let reason):
            "\(quoted(location)) cannot be used: \(reason). Nothing was changed."
        case .unreadable(let record, let reason):
            "\(record) cannot be read: \(reason). Check its owner and permissions, and the disk. Nothing was changed."
        case .readOnly(let location, let reason) where !reason.contains("errno"):
            "\(location) cannot be written: \(reason). Nothing was changed."
        case .readOnly(let location, let reason):
            "\(location) cannot be written: \(reason). Check its owner and permissions, and whether the file system is "
                + "mounted read-only. Nothing was changed."
        case .lockTimeout(let location):
            "Another process held the lock \(location) for too long. Check what it is doing, and try again."
        case .storeReplaced(let location):
            "\(location) was moved or replaced while it was open. Restart the program to use the store that is there now."
        case .storageFailure("txn", let path, E2BIG):
            "The change is too large for \(path). Store smaller values, or raise etcd's --max-request-bytes."
        case .storageFailure("txn", let path, ENOSPC):
            "\(path) has no space left. Compact and defragment etcd, then disarm its alarm with etcdctl alarm disarm."
        case .storageFailure(let operation, let path, let code):
            "\(operation) failed on \(path): \(String(cString: strerror(code))) (errno \(code)).\(Self.advice(code))"
        case .notReachable(let endpoint, let reason) where endpoint.contains("://"):
            "\(endpoint) cannot be reached: \(reason). Check the address and the network, and try again. Nothing was changed."
        case .notReachable(let endpoint, let reason):
            "\(endpoint) cannot be reached: \(reason). Nothing was changed."
        case .accessDenied(let endpoint, let reason) where endpoint.contains("://"):
            "\(endpoint) denied access: \(reason). Check the user's name, password and permissions. Nothing was changed."
        case .accessDenied(let endpoint, let reason):
            "\(endpoint) denied access: \(reason). Nothing was changed."
        case .userCanceled:
            "The user canceled the request. Only earlier changes of the same batch, move or migration were made."
        case .keychainFailure(let operation, let status, let reason):
            "\(operation) failed with the status \(status): \(reason). "
                + "Only earlier changes of the same batch, move or migration were made."
        case .conflict(let record):
            "Another writer changed \(record) at the same time, and that change is kept. Read it again, then retry."
        case .outcomeUnknown(let record, let reason) where reason.hasSuffix(Self.notSynchronized):
            "\(record) was changed, but \(reason). Check the disk, then make the change again."
        case .outcomeUnknown(let record, let reason):
            "It is not known whether \(record) was changed: \(reason). Check what is stored before you repeat the call."
        case .notSupported(let operation):
            "Not supported: \(operation). Use a backend, a device or a system that supports it. Nothing was changed."
        }
    }

    /// The end of the reason if a change was made, and the disk could not be synchronized.
    package static let notSynchronized = ", so a power cut may undo the change"

    private static let repair =
        "Restore it from a copy. A damaged item can also be imported from a Lockbox backup, overwritten or removed."

    /// What to do about an error code, after a space. Empty if that depends on the operation.
    private static func advice(_ code: Int32) -> String {
        switch code {
        case ENOSPC, EDQUOT: " Free disk space and try again."
        case EACCES, EPERM: " Check its owner and permissions."
        case ENOENT, ENOTDIR: " Check the path."
        case EROFS: " Mount the file system with write access."
        case EIO: " Check the disk."
        case EMFILE, ENFILE: " Raise the limit on open files and try again."
        case ENOMEM, EAGAIN: " Free memory, or raise the program's limits, and try again."
        default: ""
        }
    }

    private func quoted(_ key: String) -> String { String(reflecting: key) }
}

extension String {
    /// With a capital letter if it begins with an article, as "the item for the key" does. Paths and addresses stay as
    /// they are.
    fileprivate var sentence: String {
        ["the ", "a ", "an "].contains(where: hasPrefix) ? "\(prefix(1).uppercased())\(dropFirst())" : self
    }
}

extension LockboxError {
    /// The case of a ``LockboxError``, without its payload.
    ///
    /// Minor versions may add cases.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Code: String, Sendable, Hashable, Codable, CaseIterable {
        case itemNotFound, duplicateItem, interactionNotAllowed, missingKeyPrefix, invalidKey,
            invalidAttribute, valueTooLarge, encodingFailed, decodingFailed, typeMismatch, passcodeNotSet,
            passcodeAlreadySet, wrongPasscode, slotNotFound, slotRefused, invalidPasscode, notEnoughMemory,
            invalidDeviceKey, deviceKeyMismatch, missing, corrupt, authenticationFailed, unsupportedVersion,
            rolledBack, requirementNotMet, notABackup, sourceRefused, unsafePermissions, invalidLocation,
            storageFailure, unreadable, readOnly, lockTimeout, storeReplaced, notReachable, accessDenied,
            userCanceled, keychainFailure, conflict, outcomeUnknown, notSupported
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

extension LockboxError: Hashable {
    /// Returns whether two errors have the same code and the same payload. The `underlying` errors are not
    /// compared.
    ///
    /// - Parameters:
    ///   - left: An error.
    ///   - right: Another error.
    public static func == (left: LockboxError, right: LockboxError) -> Bool {
        left.code == right.code && left.payload == right.payload
    }

    /// Hashes what `==` compares.
    ///
    /// - Parameter hasher: Receives the hash.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
        hasher.combine(payload)
    }

    /// The associated values, in order, except for the `underlying` error.
    private var payload: [AnyHashable] {
        switch self {
        case .missingKeyPrefix, .passcodeNotSet, .passcodeAlreadySet, .wrongPasscode, .userCanceled: []
        case .itemNotFound(let text), .duplicateItem(let text), .invalidKey(let text),
            .invalidPasscode(let text),
            .deviceKeyMismatch(let text), .missing(let text), .authenticationFailed(let text),
            .slotNotFound(let text), .slotRefused(let text), .notABackup(let text), .conflict(let text),
            .notSupported(let text), .lockTimeout(let text), .storeReplaced(let text),
            .encodingFailed(let text, _):
            [text]
        case .invalidAttribute(let first, let second), .invalidDeviceKey(let first, let second),
            .corrupt(let first, let second), .rolledBack(let first, let second),
            .requirementNotMet(let first, let second),
            .unsafePermissions(let first, let second), .notReachable(let first, let second),
            .accessDenied(let first, let second), .outcomeUnknown(let first, let second),
            .unreadable(let first, let second), .readOnly(let first, let second),
            .invalidLocation(let first, let second),
            .sourceRefused(let first, let second),
            .decodingFailed(let first, let second, _):
            [first, second]
        case .interactionNotAllowed(let accessibility): [accessibility]
        case .valueTooLarge(let size, let limit): [size, limit]
        case .typeMismatch(let key, let stored, let type): [key, stored, type]
        case .notEnoughMemory(let bytes): [bytes]
        case .unsupportedVersion(let record, let version): [record, version]
        case .storageFailure(let operation, let path, let code): [operation, path, code]
        case .keychainFailure(let operation, let status, let reason): [operation, status, reason]
        }
    }
}
