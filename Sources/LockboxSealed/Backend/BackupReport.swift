public import LockboxCore

/// What ``SealedBackend/exportBackup(to:passphrase:prefix:strength:progress:)`` wrote.
public struct ExportReport: StoreReport, Equatable, Codable {
    /// How many items are in the backup.
    public internal(set) var exported = 0

    /// The items of the `ThisDeviceOnly` classes, which are not.
    public internal(set) var leftOut: [ItemKey] = []

    /// None: an item that cannot be read ends the export.
    public var findings: [StoreFinding] { [] }
}

/// What ``SealedBackend/importBackup(from:passphrase:existing:progress:)`` did.
public struct ImportReport: StoreReport, Equatable, Codable {
    /// How many items were written.
    public internal(set) var imported = 0

    /// How many were there already, exactly as they are in the backup.
    public internal(set) var unchanged = 0

    /// The items of the store that were kept against the backup's.
    public internal(set) var kept: [ItemKey] = []

    /// None: nothing is imported unless everything can be.
    public var findings: [StoreFinding] { [] }
}
