import LockboxCore

/// What ``SealedBackend/export(to:passphrase:prefix:strength:progress:)`` wrote.
public struct ExportReport: Sendable {
    /// How many items are in the backup.
    public internal(set) var exported = 0

    /// The items of the `ThisDeviceOnly` classes, which are not.
    public internal(set) var leftOut: [ItemKey] = []
}

/// What ``SealedBackend/importBackup(from:passphrase:existing:progress:)`` did.
public struct ImportReport: Sendable {
    /// How many items were written.
    public internal(set) var imported = 0

    /// How many were there already, exactly as they are in the backup.
    public internal(set) var unchanged = 0

    /// The items of the store that were kept against the backup's.
    public internal(set) var kept: [ItemKey] = []
}
