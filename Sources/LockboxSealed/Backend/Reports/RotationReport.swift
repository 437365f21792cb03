public import LockboxCore

/// The result of ``SealedBackend``'s `rotateKeys`.
public struct RotationReport: StoreReport, Equatable {
    /// The number of items sealed with the new keys.
    public internal(set) var resealed = 0

    /// The items that could not be read, by record, with the reason. While there are any, the old keys are
    /// kept.
    public internal(set) var unreadable: [String: LockboxError] = [:]

    /// The number of items that are still sealed with the old keys. Whoever has those keys can open these items.
    public var notRevoked: Int { unreadable.count }

    /// The items that could not be read. If there are none, the rotation is complete and the old keys have been
    /// removed.
    public var findings: [StoreFinding] {
        unreadable.sorted { $0.key < $1.key }.map { StoreFinding($0.value, $0.key) }
    }
}
