/// An error thrown by a store or a backend.
///
/// A call that reads returns `nil` only if there is no such item. In every other case it throws one of these
/// errors. Unless a case says otherwise, the store is unchanged.
///
/// ```swift
/// do {
///     token = try lockbox.unarchiveObject(String.self, forKey: "token")
/// } catch LockboxError.interactionNotAllowed {
///     // Locked: ask for the passcode, keep the user logged in.
/// }
/// ```
///
/// To compare errors without their payload, as in a test or a log, use ``code-swift.property``. Minor versions may add
/// cases, so a `switch` over an error needs an `@unknown default`.
///
/// Descriptions contain keys, records and paths, but never a value. An `underlying` error comes from the
/// encoder or decoder and may quote the value: match on it, but do not log it.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum LockboxError: Error {
    // MARK: Items

    /// There is no such item. Thrown by a write with ``WritePolicy/updateOnly``, by a copy or move, and by a change of
    /// attributes or accessibility class.
    case itemNotFound(key: String)

    /// An item already exists, and the policy is ``WritePolicy/addOnly`` or ``ExistingItemPolicy/fail``.
    case duplicateItem(key: String)

    /// The class of the item, or the one that a write needs, is locked. Unlock the store and try again.
    case interactionNotAllowed(Accessibility)

    /// The write names no class, so the item would keep its own, and only an unlocked store can prove who chose that. Name the
    /// class in the write, or unlock the store. Nothing changed.
    case classNotProven(Accessibility)

    /// No key prefix was given, and there is no default one: no bundle identifier, and no `LOCKBOX_KEY_PREFIX`.
    case missingKeyPrefix

    /// The key or the prefix is empty, too long or reserved.
    ///
    /// Also thrown for a batch with two operations for one key, a move of a store into itself, and a migration whose items
    /// contradict each other.
    case invalidKey(reason: String)

    /// A date or a text cannot be stored as an attribute, or a certificate, a key or an identity cannot be used.
    case invalidAttribute(name: String, reason: String)

    /// The encoded value is larger than the limit.
    case valueTooLarge(size: Int, limit: Int)

    /// The value's encoder threw an error, or produced something that cannot be decoded again.
    case encodingFailed(key: String, underlying: any Error)

    /// The stored value is not of the requested type. The item is unchanged.
    case decodingFailed(key: String, type: String, underlying: any Error)

    /// The stored value's format is not the one that the requested type or the coder uses. The item is
    /// unchanged.
    case typeMismatch(key: String, stored: ValueFormat, type: String)

    // MARK: Passcodes and keys

    /// The store has no passcode, but the accessibility class or the call needs one.
    case passcodeNotSet

    /// The store already has a passcode.
    case passcodeAlreadySet

    /// The passcode, the recovery code, the key or the PIN is wrong.
    case wrongPasscode

    /// The store has no such slot.
    case slotNotFound(slot: String)

    /// The slot cannot be added or removed: the owner could be locked out, or there are too many slots.
    case slotRefused(reason: String)

    /// The passcode, the recovery code or the PIN is not available, or malformed: for example empty, or longer than 1,024 bytes.
    /// Errors of an app's own closure are not replaced by this error, but rethrown.
    case invalidPasscode(reason: String)

    /// Not enough memory for the passcode's Argon2id cost, which is never lowered.
    case notEnoughMemory(bytes: Int)

    /// The device key is not available, too short or too long, or the store does not allow this source. Errors of
    /// an app's own closure are not replaced by this error, but rethrown.
    case invalidDeviceKey(source: String, reason: String)

    /// The device key is not the one that the store was created with.
    case deviceKeyMismatch(source: String)

    // MARK: Records

    /// The keybag or the device key is missing, and the store's items cannot be read without it. Also thrown if the record
    /// to quarantine, or a counter, does not exist.
    case missing(record: Subject)

    /// A record is malformed: cut short, too long, or not a record at all.
    case corrupt(record: Subject, reason: String)

    /// A record is well-formed, but its bytes were changed, or it belongs to another key, prefix or store. Or it is a keybag that
    /// its owner, whom this program or this user knows, has not made.
    case authenticationFailed(record: Subject)

    /// A newer version of Lockbox wrote the record, or it uses another cipher suite. `version` is the number of the
    /// format or the suite. This version of Lockbox never rewrites the record.
    case unsupportedVersion(record: Subject, version: Int)

    /// A record is older than one seen before, or newer than the store's keys, or a store that this user has unlocked is gone. An
    /// attacker or a restored copy has brought back an old state of the store.
    case rolledBack(record: Subject, reason: String)

    /// The store or the item is not what this program requires, such as a store without a passcode. An attacker may have
    /// replaced it.
    case requirementNotMet(record: Subject, reason: String)

    /// The file is not a Lockbox backup.
    case notABackup(path: String)

    /// No item was found that the backup could have. No file is written unless the call allows an empty one.
    case emptyBackup(path: String)

    /// A file that is the source of a migration cannot be read without loss, or is not in the format that was named.
    case sourceRefused(path: String, reason: String)

    // MARK: Storage

    /// There is no store, and this call makes none. A call that reads items takes that for a store without items.
    case storeNotFound(location: String)

    /// Others could read or change a file or folder, or it is not a regular file or folder.
    case unsafePermissions(path: Subject, reason: String)

    /// No store or file can be there, such as a folder whose name is empty, or not UTF-8. Also thrown if the name comes from the
    /// environment, and if an environment variable is not UTF-8. `location` is the name or the variable.
    case invalidLocation(location: String, reason: String)

    /// A system call failed with the error code `errno`.
    ///
    /// If the operation is `unlink` or `rename`, the first of several changes may have been made. Otherwise nothing has changed.
    /// `explanation` says what happened and what to do, in sentences, if the backend knows that better than `errno` tells.
    case storageFailure(operation: String, path: Subject, errno: Int32, explanation: String? = nil)

    /// The storage cannot read this record, for example because this process has no permission, or because the disk fails.
    /// Others may be readable. Nothing changed.
    case unreadable(record: Subject, reason: String)

    /// This process may read the storage, but not write to it, for example on a file system that is mounted read-only.
    /// Nothing changed.
    case readOnly(location: String, reason: String)

    /// Another writer held this lock for too long and made no progress. Nothing changed.
    case lockTimeout(location: String)

    /// The store was moved, or replaced by another one, while it was open; or it is another one than this user has unlocked in this
    /// folder. Nothing changed.
    case storeReplaced(location: String)

    /// The backend's server or service cannot be reached. Nothing changed.
    case notReachable(endpoint: Subject, reason: String)

    /// The backend or its server denied access to this program or user. Nothing changed.
    case accessDenied(endpoint: Subject, reason: String)

    /// The user dismissed the prompt that the backend showed. In a batch, a move or a migration, earlier changes were made;
    /// nothing else changed.
    case userCanceled

    /// A call of Apple's Keychain failed with the result code `status`, for which no other case fits. In a batch, a move or a
    /// migration, earlier changes were made; nothing else changed.
    case keychainFailure(operation: String, status: Int32, reason: String)

    /// Another writer changed the record at the same time. Its change is kept: read the item and try again.
    ///
    /// Nothing else has changed, with two exceptions. After a move, the item is at the old and the new place, unless the
    /// other writer removed it. A copy, move or migration of several items may have transferred the others.
    case conflict(record: String)

    /// The connection failed during the change, which may or may not take effect, perhaps later. Or, if `wasMade`, it was made, and
    /// a power cut may undo it, because the disk could not be synchronized.
    case outcomeUnknown(record: String, reason: String, wasMade: Bool = false)

    /// The backend does not support the operation. Nothing changed.
    case notSupported(operation: String)

    /// The thing that an error is about, with the text that names it: a path, an address, or words.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Subject: Sendable, Hashable {
        /// One record, of an item or of a backend. Others may be readable.
        case record(String)

        /// The keybag, so the whole store.
        case keybag(String)

        /// The device key in the store.
        case deviceKey(String)

        /// A server on the network.
        case endpoint(String)

        /// Something else, such as a folder, a device, or a file outside the store. A string literal is this case.
        case other(String)
    }
}

extension LockboxError.Subject: ExpressibleByStringInterpolation, CustomStringConvertible {
    /// Creates the case ``other(_:)``.
    ///
    /// - Parameter text: The text that names it.
    public init(stringLiteral text: String) { self = .other(text) }

    /// The text that names it.
    public var description: String {
        switch self {
        case .record(let text), .keybag(let text), .deviceKey(let text), .endpoint(let text),
            .other(let text):
            text
        }
    }
}

/// Why a coder failed, without any value.
///
/// The coder's own texts may quote values, and so may the keys of dictionaries.
struct CodingReason: CustomStringConvertible {
    let description: String

    init(_ error: any Error) {
        description =
            switch error {
            case DecodingError.keyNotFound(let key, let context):
                "there is no \(Self.path(context.codingPath + [key]))"
            case DecodingError.valueNotFound(let type, let context):
                "\(Self.path(context.codingPath)) is null, and not of the type \(type)"
            case DecodingError.typeMismatch(let type, let context):
                "\(Self.path(context.codingPath)) is not of the type \(type)"
            case DecodingError.dataCorrupted(let context) where context.codingPath.isEmpty:
                "it is not what the type's decoder accepts"
            case DecodingError.dataCorrupted(let context):
                "\(Self.path(context.codingPath)) is not what its type's decoder accepts"
            case EncodingError.invalidValue(_, let context):
                "\(Self.path(context.codingPath)) has a value that cannot be encoded, or is nested too deeply"
            case let error as Undecodable:
                "it could not be decoded again: \(CodingReason(error.underlying)). A Decimal that is NaN has no JSON"
            default: "its type threw an error of the type \(type(of: error))"
            }
    }

    /// Only a key that is a case of an enumeration without associated values is in the program's code, and not in the value.
    private static func path(_ keys: [any CodingKey]) -> String {
        if keys.isEmpty { return "it" }
        let names = keys.map { key in
            if let index = key.intValue { return "[\(index)]" }
            let mirror = Mirror(reflecting: key)
            return mirror.displayStyle == .enum && mirror.children.isEmpty ? ".\(key.stringValue)" : ".…"
        }
        return String(names.joined().drop { $0 == "." })
    }
}

/// A value was encoded to something that its own type does not decode.
package struct Undecodable: Error {
    let underlying: any Error

    package init(underlying: any Error) { self.underlying = underlying }
}
