/// The result of ``LockboxBackend``'s `copyItems` or `moveItems`.
public struct TransferReport: StoreReport {
    /// The items that are now in the destination, written by this call or an earlier one.
    public var transferredKeys: [ItemKey] = []

    /// The items that were not transferred, because the destination keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``). After a move, they are still in the source.
    public var keptKeys: [ItemKey] = []

    /// The items that could not be read, written or removed, and why. They stay in the source.
    public var failures: [ItemKey: any Error] = [:]

    /// The items of the source that a list cannot read. They stay in the source.
    public var unreadableItems: [UnreadableItem] = []

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

extension TransferReport: Undescribed {
    /// How many items were transferred and kept, and the findings. An error of the app's own backend may quote a value, so only
    /// its type is shown.
    package var summary: String {
        "TransferReport(\(transferredKeys.count) transferred, \(keptKeys.count) kept, findings: \(findings))"
    }
}
