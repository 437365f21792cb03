public import LockboxCore

/// The result of ``SealedBackend``'s `importBackup`.
public struct ImportReport: StoreReport, Hashable, Codable {
    /// The number of items written.
    public var importedCount: Int

    /// The number of items that were already identical in the store.
    public var unchangedCount: Int

    /// The items that were not imported, because the store keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``).
    public var keptKeys: [ItemKey]

    /// The items that were not imported, because the existing item can be neither read nor replaced.
    public var findings: [StoreFinding]

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - importedCount: The number of items written.
    ///   - unchangedCount: The number of items that were already identical in the store.
    ///   - keptKeys: The items that were not imported, because of the policy.
    ///   - findings: The items that could not be imported.
    public init(
        importedCount: Int = 0,
        unchangedCount: Int = 0,
        keptKeys: [ItemKey] = [],
        findings: [StoreFinding] = []
    ) {
        self.importedCount = importedCount
        self.unchangedCount = unchangedCount
        self.keptKeys = keptKeys
        self.findings = findings
    }
}
