public import LockboxCore

/// The result of ``SealedBackend``'s `exportBackup`.
public struct ExportReport: StoreReport, Equatable, Codable {
    /// The number of items in the backup.
    public internal(set) var exported = 0

    /// The items that were left out because their class is a `ThisDeviceOnly` class.
    public internal(set) var leftOut: [ItemKey] = []

    /// The items that cannot be read, and the folders of prefixes that cannot be listed. They are not in the backup.
    public internal(set) var findings: [StoreFinding] = []
}
