/// The result of ``LockboxBackend``'s `copyItems` or
/// `moveItems`.
public struct TransferReport: StoreReport {
    /// The items that are now in the destination, written by this call or an earlier one.
    public internal(set) var transferred: [ItemKey] = []

    /// The items that were not transferred, because the destination keeps a different item under the same key.
    public internal(set) var kept: [ItemKey] = []

    /// The items that could not be read, written or removed, and why. They stay in the source.
    public internal(set) var failed: [ItemKey: any Error] = [:]

    /// The items of the source that a list cannot read. They stay in the source.
    public internal(set) var unreadable: [UnreadableItem] = []

    /// The items that could not be read, written or removed.
    public var findings: [StoreFinding] {
        unreadable.map(\.finding)
            + failed.sorted { $0.key.key < $1.key.key }.map { key, error in
                let location = key.location
                if let error = error as? LockboxError { return StoreFinding(error, location) }
                // An error of the app's own backend may quote a value, so only its type is shown.
                return StoreFinding(kind: .damaged, location: location, reason: "\(type(of: error))")
            }
    }

    /// Whether every item was transferred.
    public var isComplete: Bool { kept.isEmpty && failed.isEmpty && unreadable.isEmpty }
}
