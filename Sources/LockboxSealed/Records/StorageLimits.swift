/// The limits and guarantees of a storage.
public struct StorageLimits: Sendable, Hashable {
    /// The maximum length of a record, in bytes: at least 1 MiB.
    public let maximumRecordLength: Int

    /// The maximum number of changes in a commit.
    public let maximumChanges: Int

    /// The maximum length of all records of a commit together, in bytes. At least ``maximumRecordLength``.
    public let maximumCommitLength: Int

    /// Whether all changes of a commit take effect at the same instant, and several records are read as of the
    /// same instant. If false, this holds only for each record separately.
    public let isTransactional: Bool

    /// After how long a call throws ``LockboxError/conflict(record:)`` while each of its attempts to change a record meets
    /// another writer's change.
    public let conflictTime: Duration

    /// Creates limits.
    ///
    /// - Parameters:
    ///   - maximumRecordLength: The maximum length of a record, in bytes: at least 1 MiB.
    ///   - maximumChanges: The maximum number of changes in a commit, at least two.
    ///   - maximumCommitLength: The maximum length of all records of a commit together, in bytes.
    ///   - isTransactional: Whether commits and reads of several records take effect at one instant.
    ///   - conflictTime: After how long a call that meets nothing but conflicts ends.
    public init(
        maximumRecordLength: Int,
        maximumChanges: Int,
        maximumCommitLength: Int = .max,
        isTransactional: Bool,
        conflictTime: Duration = .seconds(30)
    ) {
        self.maximumRecordLength = maximumRecordLength
        self.maximumChanges = maximumChanges
        self.maximumCommitLength = maximumCommitLength
        self.isTransactional = isTransactional
        self.conflictTime = conflictTime
    }
}
