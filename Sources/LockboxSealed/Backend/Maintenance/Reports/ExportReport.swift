public import LockboxCore

/// The result of ``SealedBackend``'s `exportBackup`.
public struct ExportReport: StoreReport, Hashable, Codable {
    /// The number of items in the backup.
    public var exportedCount: Int

    /// The items that are not in the backup because their class is a `ThisDeviceOnly` class.
    public var excludedKeys: [ItemKey]

    /// The items that cannot be read, and the folders of prefixes that cannot be listed. They are not in the backup.
    public var findings: [StoreFinding]

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - exportedCount: The number of items in the backup.
    ///   - excludedKeys: The items that are not in it because of their class.
    ///   - findings: The items that cannot be read.
    public init(exportedCount: Int = 0, excludedKeys: [ItemKey] = [], findings: [StoreFinding] = []) {
        self.exportedCount = exportedCount
        self.excludedKeys = excludedKeys
        self.findings = findings
    }
}
