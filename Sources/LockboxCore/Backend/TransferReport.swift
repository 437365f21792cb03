/// What ``LockboxBackend/copyItems(to:prefix:existing:progress:)`` or
/// ``LockboxBackend/moveItems(to:prefix:existing:progress:)`` did.
public struct TransferReport: StoreReport {
    /// The items that are in the other backend now, because of this call or of an earlier one.
    public internal(set) var transferred: [ItemKey] = []

    /// The items for which the other backend has another, which was kept. They are where they were.
    public internal(set) var kept: [ItemKey] = []

    /// The items that could not be read, written or removed, and why. They are where they were.
    public internal(set) var failed: [ItemKey: any Error] = [:]

    /// The items that could not be read, written or removed.
    public var findings: [StoreFinding] {
        failed.sorted { $0.key.key < $1.key.key }.map { key, error in
            let location = "the item for the key \(String(reflecting: key.key))"
            if let error = error as? LockboxError { return StoreFinding(error, location) }
            // Of a backend of the app's own: its text may show a value.
            return StoreFinding(kind: .damaged, location: location, reason: "\(type(of: error))")
        }
    }

    /// Whether every item was transferred.
    public var isComplete: Bool { kept.isEmpty && failed.isEmpty }
}
