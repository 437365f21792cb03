public import LockboxCore

/// The result of ``SealedBackend``'s `exportBackup`.
public struct ExportReport: StoreReport, Equatable, Codable {
    /// The number of items in the backup.
    public internal(set) var exported = 0

    /// The items that were left out because their class is a `ThisDeviceOnly` class.
    public internal(set) var leftOut: [ItemKey] = []

    /// Always empty: an item that cannot be read ends the export with an error.
    public var findings: [StoreFinding] { [] }
}
