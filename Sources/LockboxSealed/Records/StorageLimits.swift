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

    /// Creates limits.
    ///
    /// - Parameters:
    ///   - maximumRecordLength: The maximum length of a record, in bytes: at least 1 MiB.
    ///   - maximumChanges: The maximum number of changes in a commit, at least two.
    ///   - maximumCommitLength: The maximum length of all records of a commit together, in bytes.
    ///   - isTransactional: Whether commits and reads of several records take effect at one instant.
    public init(
        maximumRecordLength: Int,
        maximumChanges: Int,
        maximumCommitLength: Int = .max,
        isTransactional: Bool
    ) {
        self.maximumRecordLength = maximumRecordLength
        self.maximumChanges = maximumChanges
        self.maximumCommitLength = maximumCommitLength
        self.isTransactional = isTransactional
    }
}
