public import LockboxCore

/// The result of ``SealedBackend``'s `importBackup`.
public struct ImportReport: StoreReport, Equatable, Codable {
    /// The number of items written.
    public internal(set) var imported = 0

    /// The number of items that were already identical in the store.
    public internal(set) var unchanged = 0

    /// The items for which the store keeps a different item than the backup's.
    public internal(set) var kept: [ItemKey] = []

    /// The items that were not imported, because what the store has in their place can be neither read nor replaced.
    public internal(set) var findings: [StoreFinding] = []
}
