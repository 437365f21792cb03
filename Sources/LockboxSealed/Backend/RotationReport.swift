public import LockboxCore

/// What ``SealedBackend/rotateKeys(progress:)`` did.
public struct RotationReport: StoreReport, Equatable {
    /// How many items were sealed under the new keys.
    public internal(set) var resealed = 0

    /// The items that could not be read, by their records, each with the reason. As long as there are any, the old keys
    /// are kept.
    public internal(set) var unreadable: [String: LockboxError] = [:]

    /// The items that could not be read. Complete is a rotation without any: the old keys are gone.
    public var findings: [StoreFinding] {
        unreadable.sorted { $0.key < $1.key }.map { StoreFinding($0.value, $0.key) }
    }
}
