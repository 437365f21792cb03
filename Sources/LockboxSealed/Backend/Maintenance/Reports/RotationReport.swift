public import LockboxCore

/// The result of a call that replaces the store's keys: ``SealedBackend``'s `rotateKeys`, and every change of a passcode
/// or another slot.
public struct RotationReport: StoreReport, Equatable {
    /// The number of items sealed with the new keys.
    public internal(set) var resealed = 0

    /// The items that could not be read and the folders that could not be listed, by location (a path, for files), with the
    /// reason. While there are any, the old keys are kept.
    public internal(set) var unreadable: [String: LockboxError] = [:]

    /// Whether resealing was postponed: because `resealing` was false, because of an error, or because other processes kept
    /// starting rotations. Until the next `rotateKeys(newDeviceKey:)`, whoever has the old keys can open these items.
    public internal(set) var isPostponed = false

    /// Whether the store has a new device key. False if the key is kept elsewhere and no new one was given. Then whoever has
    /// the old key can still read names, attributes and the `always` classes.
    public internal(set) var hasNewDeviceKey = false

    /// The number of items that are still sealed with the old keys, not counting postponed ones. A folder that could not be
    /// listed counts as one. Whoever has the old keys can open these items.
    public var notRevoked: Int { unreadable.count }

    /// The items that could not be read. If there are none, and resealing was not postponed, the old keys have been removed.
    public var findings: [StoreFinding] {
        unreadable.sorted { $0.key < $1.key }.map { StoreFinding($0.value, $0.key) }
    }
}
