/// What ``LockboxBackend/copyItems(to:prefix:existing:progress:)`` or
/// ``LockboxBackend/moveItems(to:prefix:existing:progress:)`` did.
public struct TransferReport: Sendable {
    /// The items that are in the other backend now, because of this call or of an earlier one.
    public internal(set) var transferred: [ItemKey] = []

    /// The items for which the other backend has another, which was kept. They are where they were.
    public internal(set) var kept: [ItemKey] = []

    /// The items that could not be read, written or removed, and why. They are where they were.
    public internal(set) var failed: [ItemKey: any Error] = [:]

    /// Whether every item was transferred.
    public var isComplete: Bool { kept.isEmpty && failed.isEmpty }
}
