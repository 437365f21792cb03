import LockboxCore

/// An error in a record's bytes. The backend converts it to a ``LockboxError`` with the record's name.
enum RecordError: Error, Equatable {
    case malformed(String)
    case notAuthentic
    case wrongDeviceKey
    case unsupportedVersion(Int)
    /// The keyring does not contain the class key that the record names. The record may be newer than the
    /// keyring.
    case unknownKey
    /// As ``unknownKey``, and the record's epoch has not begun in this keyring.
    case laterEpoch
    /// The class key is locked.
    case locked(Accessibility)

    /// Whether a newer keyring may open the record.
    var isOfKeyring: Bool {
        switch self {
        case .unknownKey, .laterEpoch, .locked: true
        default: false
        }
    }
}
