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
