public import LockboxCore

/// The result of ``SealedBackend``'s `importBackup`.
public struct ImportReport: StoreReport, Equatable, Codable {
    /// The number of items written.
    public internal(set) var imported = 0

    /// The number of items that were already identical in the store.
    public internal(set) var unchanged = 0

    /// The items that were not imported, because the store keeps a different item under the same key.
    public internal(set) var kept: [ItemKey] = []

    /// The items that were not imported, because the existing item can be neither read nor replaced.
    public internal(set) var findings: [StoreFinding] = []
}
