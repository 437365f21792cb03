public import LockboxCore

/// The result of a call that replaces the store's keys: ``SealedBackend``'s `rotateKeys`, and every change of a passcode
/// or another slot.
public struct RotationReport: StoreReport, Equatable {
    /// The number of items sealed with the new keys.
    public internal(set) var resealed = 0

    /// The items that could not be read, by record, with the reason, and the folders of prefixes that could not be listed.
    /// While there are any, the old keys are kept.
    public internal(set) var unreadable: [String: LockboxError] = [:]

    /// Whether the items were left for later, because the caller or an error said so, or because other processes began one
    /// rotation after the other meanwhile. Whoever has the old keys can open them until the next
    /// `rotateKeys(newDeviceKey:)`.
    public internal(set) var isPostponed = false

    /// Whether the store has a new device key. It has not if the key is kept elsewhere and no new one was given: whoever
    /// has the old one can still read names, attributes and the `always` classes.
    public internal(set) var hasNewDeviceKey = false

    /// The number of items that are still sealed with the old keys, not counting postponed ones. A folder that could not be
    /// listed counts as one. Whoever has those keys
    /// can open these items.
    public var notRevoked: Int { unreadable.count }

    /// The items that could not be read. If there are none, and they were not left for later, the old keys have been
    /// removed.
    public var findings: [StoreFinding] {
        unreadable.sorted { $0.key < $1.key }.map { StoreFinding($0.value, $0.key) }
    }
}
