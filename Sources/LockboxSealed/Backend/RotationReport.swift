import LockboxCore

/// What ``SealedBackend/rotateKeys(progress:)`` did.
public struct RotationReport: Sendable {
    /// How many items were sealed under the new keys.
    public internal(set) var resealed = 0

    /// The items that could not be read, by their records, each with the reason. As long as there are any, the old keys
    /// are kept.
    public internal(set) var unreadable: [String: LockboxError] = [:]

    /// Whether the old keys are gone.
    public var isComplete: Bool { unreadable.isEmpty }
}
