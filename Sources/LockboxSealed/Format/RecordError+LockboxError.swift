import LockboxCore

extension RecordError {
    /// Returns the public error, with the record's name.
    func lockboxError(_ record: String) -> LockboxError {
        switch self {
        case .malformed(let reason): .corrupt(record: record, reason: reason)
        case .notAuthentic: .authenticationFailed(record: record)
        case .wrongDeviceKey: .deviceKeyMismatch(source: record)
        case .unsupportedVersion(let version): .unsupportedVersion(record: record, version: version)
        case .unknownKey: .corrupt(record: record, reason: "the keybag does not contain its key")
        case .laterEpoch:
            .rolledBack(
                record: record,
                reason:
                    "it names keys that are newer than the keybag's, so an older keybag was put back, or the item is damaged and "
                    + "can only be removed"
            )
        case .locked(let accessibility): .interactionNotAllowed(accessibility)
        }
    }
}
