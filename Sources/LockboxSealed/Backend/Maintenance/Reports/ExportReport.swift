public import LockboxCore

/// The result of ``SealedBackend``'s `exportBackup`.
public struct ExportReport: StoreReport, Hashable, Codable {
    /// The number of items in the backup.
    public var exportedCount: Int

    /// The items that are not in the backup because their class is a `ThisDeviceOnly` class.
    public var excludedKeys: [ItemKey]

    /// The items that cannot be read, and the folders of prefixes that cannot be listed. They are not in the backup.
    public var findings: [StoreFinding]

    /// Where the earlier backup of that name is now, if it stays: it has something that the new one lacks, or cannot be read.
    public var keptBackup: String?

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - exportedCount: The number of items in the backup.
    ///   - excludedKeys: The items that are not in it because of their class.
    ///   - findings: The items that cannot be read.
    ///   - keptBackup: Where the earlier backup is, if it stays.
    public init(
        exportedCount: Int = 0,
        excludedKeys: [ItemKey] = [],
        findings: [StoreFinding] = [],
        keptBackup: String? = nil
    ) {
        self.exportedCount = exportedCount
        self.excludedKeys = excludedKeys
        self.findings = findings
        self.keptBackup = keptBackup
    }
}
