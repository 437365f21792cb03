/// The result of ``LockboxBackend``'s `copyItems` or `moveItems`.
public struct TransferReport: StoreReport {
    /// The items that are now in the destination, written by this call or an earlier one.
    public var transferredKeys: [ItemKey]

    /// The items that were not transferred, because the destination keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``). After a move, they are still in the source.
    public var keptKeys: [ItemKey]

    /// The items that could not be read, written or removed, and why. They stay in the source.
    public var failures: [ItemKey: any Error]

    /// The items of the source that a list cannot read. They stay in the source.
    public var unreadableItems: [UnreadableItem]

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - transferredKeys: The items that are now in the destination.
    ///   - keptKeys: The items that were not transferred, because of the policy.
    ///   - failures: The items that could not be read, written or removed, and why.
    ///   - unreadableItems: The items of the source that a list cannot read.
    public init(
        transferredKeys: [ItemKey] = [],
        keptKeys: [ItemKey] = [],
        failures: [ItemKey: any Error] = [:],
        unreadableItems: [UnreadableItem] = []
    ) {
        self.transferredKeys = transferredKeys
        self.keptKeys = keptKeys
        self.failures = failures
        self.unreadableItems = unreadableItems
    }

    /// The items that could not be read, written or removed.
    public var findings: [StoreFinding] {
        unreadableItems.map(\.finding)
            + failures.sorted { $0.key.key < $1.key.key }.map { key, error in
                let location = key.location
                if let error = error as? LockboxError { return StoreFinding(error, location: location) }
                // An error of the app's own backend may quote a value, so only its type is shown.
                return StoreFinding(kind: .damaged, location: location, reason: "\(type(of: error))")
            }
    }
}
