public import LockboxPlatform

/// The facts about an error.
private struct Row {
    let code: LockboxError.Code
    let osStatus: Int32
    /// The associated values, in order, except for the `underlying` error.
    let payload: [AnyHashable]
    /// The record, file or folder that the error is about, if it is about one.
    let subject: LockboxError.Subject?
    /// False if the call that fails with it has changed nothing.
    let changes: Bool
    /// Says what went wrong and what to do about it.
    let text: () -> String

    init(
        _ code: LockboxError.Code,
        _ osStatus: Int32,
        _ payload: [AnyHashable],
        at subject: LockboxError.Subject? = nil,
        changes: Bool = true,
        text: @escaping () -> String
    ) {
        self.code = code
        self.osStatus = osStatus
        self.payload = payload
        self.subject = subject
        self.changes = changes
        self.text = text
    }
}

extension LockboxError {
    private var row: Row {
        switch self {
        case .itemNotFound(let key):  // errSecItemNotFound
            Row(.itemNotFound, -25300, [key]) {
                "There is no item for the key \(quoted(key))."
            }
        case .duplicateItem(let key):  // errSecDuplicateItem
            Row(.duplicateItem, -25299, [key]) {
                "An item for the key \(quoted(key)) already exists. Use the policy .replace to overwrite it."
            }
        case .interactionNotAllowed(let accessibility):  // errSecInteractionNotAllowed
            Row(.interactionNotAllowed, -25308, [accessibility]) {
                "Items of the class \(accessibility) are locked. Unlock the store and try again."
            }
        case .classNotProven(let accessibility):  // errSecInteractionNotAllowed
            Row(.classNotProven, -25308, [accessibility], changes: false) {
                "The store is locked, so nothing proves who chose the item's class, \(accessibility). Name the class in the write, "
                    + "or unlock the store."
            }
        case .missingKeyPrefix:  // errSecParam
            Row(.missingKeyPrefix, -50, []) {
                "This program has no key prefix. Call Lockbox.configure(keyPrefix:) once at the start, "
                    + "or set LOCKBOX_KEY_PREFIX."
            }
        case .invalidKey(let reason):  // errSecParam
            Row(.invalidKey, -50, [reason], changes: false) {
                "\(reason.prefix(1).uppercased())\(reason.dropFirst())."
            }
        case .invalidAttribute(let name, let reason):  // errSecParam
            Row(.invalidAttribute, -50, [name, reason], changes: false) {
                "Invalid \(name): \(reason)."
            }
        case .valueTooLarge(let size, let limit):  // errSecDataTooLarge
            Row(.valueTooLarge, -25302, [size, limit]) {
                "The encoded value has \(size) bytes; the limit is \(limit). Store it in a file, "
                    + "encrypted with a key that you archive here."
            }
        case .encodingFailed(let key, let underlying):  // errSecInvalidValue
            Row(.encodingFailed, -67694, [key]) {
                "The value for the key \(quoted(key)) could not be encoded: \(CodingReason(underlying)). "
                    + "The old value, if any, is unchanged."
            }
        case .decodingFailed(let key, let type, let underlying):  // errSecDecode
            Row(.decodingFailed, -26275, [key, type]) {
                "The value for the key \(quoted(key)) could not be decoded as \(type): \(CodingReason(underlying)). "
                    + "Ask for the type that was archived, or have \(type) read the older form too."
            }
        case .typeMismatch(let key, let stored, let type):  // errSecDecode
            Row(.typeMismatch, -26275, [key, stored, type]) {
                "The value for the key \(quoted(key)) "
                    + (stored == .lockbox2
                        ? "was stored by Lockbox 2 and cannot be read as \(type). Migrate it with migrate(_:), or read it with the "
                            + "methods of Lockbox 2."
                        : "is stored as \(stored) and cannot be read as \(type). Ask for the type that was archived.")
            }
        case .passcodeNotSet:  // errSecAuthFailed
            Row(.passcodeNotSet, -25293, []) {
                "The store has no passcode. Set one first. To store an item without a passcode, use a class other than "
                    + "whenPasscodeSetThisDeviceOnly."
            }
        case .passcodeAlreadySet:  // errSecDuplicateItem
            Row(.passcodeAlreadySet, -25299, []) {
                "The store already has a passcode. Change or remove it instead."
            }
        case .wrongPasscode:  // errSecAuthFailed
            Row(.wrongPasscode, -25293, [], changes: false) {
                "The passcode, recovery code, key or PIN is wrong. Check it and try again. If you are sure of a passcode, the keybag "
                    + "may be forged: do not try a recovery code on it."
            }
        case .slotNotFound(let slot):  // errSecItemNotFound
            Row(.slotNotFound, -25300, [slot]) {
                "The store has no slot \(slot). List its slots to see what unlocks it."
            }
        case .slotRefused(let reason):  // errSecParam
            Row(.slotRefused, -50, [reason], changes: false) {
                "The slot was not added or removed: \(reason)."
            }
        case .invalidPasscode(let reason):  // errSecParam
            Row(.invalidPasscode, -50, [reason], changes: false) {
                "The passcode, recovery code or PIN cannot be used: \(reason)."
            }
        case .notEnoughMemory(let bytes):  // errSecAllocate
            Row(.notEnoughMemory, -108, [bytes]) {
                "Argon2id needs \(bytes) bytes of memory, which are not available. Raise the memory limit, "
                    + "or set the passcode again with a lower strength on a machine that has enough memory."
            }
        case .invalidDeviceKey(let source, let reason):  // errSecParam
            Row(.invalidDeviceKey, -50, [source, reason], changes: false) {
                "The key (\(source)) cannot be used: \(reason)."
            }
        case .deviceKeyMismatch(let path):  // errSecAuthFailed
            Row(.deviceKeyMismatch, -25293, [path], changes: false) {
                "The device key (\(path)) does not belong to this store. Put the right one back."
            }
        case .missing(let record):  // errSecNoSuchKeychain
            Row(.missing, -25294, [record], at: record, changes: false) {
                "\(record) is missing. Restore it from a copy of the store."
            }
        case .corrupt(let record, let reason):  // errSecInvalidRecord
            Row(.corrupt, -67701, [record, reason], at: record) {
                "\(record) is damaged: \(reason). \(Self.repair(of: record))"
            }
        case .authenticationFailed(let record):  // errSecAuthFailed
            Row(.authenticationFailed, -25293, [record], at: record) {
                "\(record) was tampered with, or belongs to another key, prefix or store. \(Self.repair(of: record))"
            }
        case .unsupportedVersion(let record, let version):  // errSecIncompatibleVersion
            Row(.unsupportedVersion, -67704, [record, version], at: record, changes: false) {
                "\(record) has the format or cipher suite \(version), which this version of Lockbox does not know. "
                    + "Update the program."
            }
        case .rolledBack(let record, let reason):  // errSecVerifyFailed
            Row(.rolledBack, -67808, [record, reason], at: record, changes: false) {
                "\(record) does not match what was seen before: \(reason). An attacker may have put back an old copy. "
                    + "If you restored it yourself, call acceptRestored."
            }
        case .requirementNotMet(let record, let reason):  // errSecVerifyFailed
            Row(.requirementNotMet, -67808, [record, reason], at: record, changes: false) {
                "\(record) is refused: \(reason). An attacker may have replaced it. Check the store, or change what the program "
                    + "requires."
            }
        case .notABackup(let path):  // errSecUnknownFormat
            Row(.notABackup, -25257, [path], changes: false) {
                "\(path) is not a Lockbox backup. Choose another file."
            }
        case .emptyBackup(let path):  // errSecItemNotFound
            Row(.emptyBackup, -25300, [path]) {
                "There is no item for the backup \(path), so no file was written. Check the store and the prefix."
            }
        case .storeNotFound(let location):  // errSecNoSuchKeychain
            Row(.storeNotFound, -25294, [location], at: .other(location)) {
                "There is no store\(location.isEmpty ? "" : " in \(location)"). Check the path and the user."
            }
        case .sourceRefused(let path, let reason):  // errSecUnknownFormat
            Row(.sourceRefused, -25257, [path, reason], at: .other(path)) {
                "\(path) was refused and is unchanged: \(reason). Correct it, or name another file."
            }
        case .unsafePermissions(let path, let reason):  // errSecWrPerm
            Row(.unsafePermissions, -61, [path, reason], at: path) {
                "\(path) is not safe to use: \(reason)."
            }
        case .invalidLocation(let location, let reason):  // errSecParam
            Row(.invalidLocation, -50, [location, reason], at: .other(location), changes: false) {
                "\(quoted(location)) cannot be used: \(reason)."
            }
        case .unreadable(let record, let reason):  // errSecIO
            Row(.unreadable, -36, [record, reason], at: record, changes: false) {
                "\(record) cannot be read: \(reason). Check its owner and permissions, and the disk."
            }
        case .readOnly(let location, let reason):  // errSecReadOnly
            Row(.readOnly, -25292, [location, reason], at: .other(location), changes: false) {
                "\(location) cannot be written: \(reason)."
            }
        case .lockTimeout(let location):  // errSecIO
            Row(.lockTimeout, -36, [location], at: .other(location)) {
                "Another process held the lock \(location) for too long. Check what it is doing, and try again."
            }
        case .storeReplaced(let location):  // errSecIO
            Row(.storeReplaced, -36, [location], at: .other(location)) {
                "\(location) is not the store that was used before. If it was moved or replaced while it was open, restart the "
                    + "program. If you replaced it yourself, call acceptRestored."
            }
        case .storageFailure(let operation, let path, let code, let explanation):  // errSecDiskFull, errSecIO
            Row(.storageFailure, code == ENOSPC ? -34 : -36, [operation, path, code, explanation], at: path) {
                explanation
                    ?? "\(operation) failed on \(path): \(String(cString: strerror(code))) (errno \(code)).\(Self.advice(code))"
            }
        case .notReachable(let endpoint, let reason):  // errSecNotAvailable
            Row(.notReachable, -25291, [endpoint, reason], changes: false) {
                "\(endpoint) cannot be reached: \(reason)."
                    + (endpoint.isServer ? " Check the address and the network, and try again." : "")
            }
        case .accessDenied(let endpoint, let reason):  // errSecAuthFailed
            Row(.accessDenied, -25293, [endpoint, reason], changes: false) {
                "\(endpoint) denied access: \(reason)."
                    + (endpoint.isServer ? " Check the user's name, password and permissions." : "")
            }
        case .userCanceled:  // errSecUserCanceled
            Row(.userCanceled, -128, []) {
                "The user canceled the request. Only earlier changes of the same batch, move or migration were made."
            }
        case .keychainFailure(let operation, let status, let reason):
            Row(.keychainFailure, status, [operation, status, reason]) {
                "\(operation) failed with the status \(status): \(reason). "
                    + "Only earlier changes of the same batch, move or migration were made."
            }
        case .conflict(let record):  // errSecInvalidItemRef
            Row(.conflict, -25304, [record]) {
                "Another writer changed \(record) at the same time, and that change is kept. Read it again, then retry."
            }
        case .outcomeUnknown(let record, let reason, let wasMade):  // errSecRequestLost
            Row(.outcomeUnknown, -67846, [record, reason, wasMade]) {
                wasMade
                    ? "\(record) was changed, but \(reason), so a power cut may undo the change. Check the disk, then make the "
                        + "change again."
                    : "It is not known whether \(record) was changed: \(reason). Check what is stored before you repeat the call."
            }
        case .notSupported(let operation):  // errSecUnimplemented
            Row(.notSupported, -4, [operation], changes: false) {
                "Not supported: \(operation). Use a backend, a device or a system that supports it."
            }
        }
    }

    private static func repair(of record: Subject) -> String {
        guard case .record = record else { return "Restore it from a copy." }
        return
            "Restore it from a copy. A damaged item can also be imported from a Lockbox backup, overwritten or removed."
    }

    /// Advice for an error code, after a space. Empty if that depends on the operation.
    private static func advice(_ code: Int32) -> String {
        switch code {
        case ENOSPC, EDQUOT: " Free disk space and try again."
        case EACCES, EPERM: " Check its owner and permissions."
        case ENOENT, ENOTDIR: " Check the path."
        case ENOLCK:
            " The mount must have locks: NFS 4, or 3 with rpc.statd and without nolock. Otherwise choose another file system."
        case EROFS: " Mount the file system with write access."
        case EIO: " Check the disk."
        case EMFILE, ENFILE: " Raise the limit on open files and try again."
        case ENOMEM, EAGAIN: " Free memory, or raise the program's limits, and try again."
        default: ""
        }
    }

    private func quoted(_ key: String) -> String { String(reflecting: key) }
}

extension LockboxError {
    /// The case of a ``LockboxError``, without its payload.
    ///
    /// Minor versions may add cases.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Code: String, Sendable, Hashable, Codable, CaseIterable {
        case itemNotFound, duplicateItem, interactionNotAllowed, classNotProven, missingKeyPrefix, invalidKey,
            invalidAttribute, valueTooLarge, encodingFailed, decodingFailed, typeMismatch, passcodeNotSet,
            passcodeAlreadySet, wrongPasscode, slotNotFound, slotRefused, invalidPasscode, notEnoughMemory,
            invalidDeviceKey, deviceKeyMismatch, missing, corrupt, authenticationFailed, unsupportedVersion,
            rolledBack, requirementNotMet, notABackup, emptyBackup, sourceRefused, storeNotFound,
            unsafePermissions, invalidLocation, storageFailure, unreadable, readOnly, lockTimeout,
            storeReplaced, notReachable, accessDenied,
            userCanceled, keychainFailure, conflict, outcomeUnknown, notSupported
    }

    /// The case of this error.
    public var code: Code { row.code }

    /// The record, file or folder that the error is about, if it is about one.
    package var subject: Subject? { row.subject }

    /// Whether the error is about one record, and says nothing about the others.
    package var isOfOneRecord: Bool {
        if case .record = subject { true } else { false }
    }
}

extension LockboxError.Subject {
    fileprivate var isServer: Bool {
        if case .endpoint = self { true } else { false }
    }
}

extension LockboxError: Undescribed {
    /// Says what went wrong and what to do about it, on one line. Never contains a value.
    public var description: String { problem + (saysNothingWasChanged ? " Nothing was changed." : "") }

    package var saysNothingWasChanged: Bool { !row.changes }

    /// The description of a part of a call. The other parts may have changed something.
    package var problem: String {
        let text = ShownText.line(row.text())
        // Paths and addresses stay as they are; "the item for the key" gets a capital letter.
        let isSentence = ["the ", "a ", "an "].contains(where: text.hasPrefix)
        return isSentence ? "\(text.prefix(1).uppercased())\(text.dropFirst())" : text
    }
}

extension LockboxError: LocalizedError {
    /// Same as ``description``.
    public var errorDescription: String? { description }

    /// The domain of the `NSError` that this error is bridged to. Implemented directly, because `CustomNSError`
    /// needs full Foundation.
    public var _domain: String { "LockboxError" }

    /// The code of the `NSError` that this error is bridged to: the closest result code of the Keychain.
    public var _code: Int { Int(row.osStatus) }
}

extension LockboxError: Equatable {
    /// Returns whether two errors have the same code and the same payload. The `underlying` errors are not
    /// compared.
    ///
    /// - Parameters:
    ///   - left: An error.
    ///   - right: Another error.
    public static func == (left: LockboxError, right: LockboxError) -> Bool {
        let (left, right) = (left.row, right.row)
        return left.code == right.code && left.payload == right.payload
    }
}
