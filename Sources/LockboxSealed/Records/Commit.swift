/// A change in a ``RecordStorage/commit(_:expecting:turn:)``.
public enum RecordChange: Sendable {
    /// Stores a record, replacing an existing one of that name.
    case put(RecordName, [UInt8])

    /// Removes a record. Does nothing if it does not exist.
    case remove(RecordName)

    /// The name of the changed record.
    public var record: RecordName {
        switch self {
        case .put(let record, _), .remove(let record): record
        }
    }
}

/// The result of a ``RecordStorage/commit(_:expecting:turn:)``.
public enum CommitOutcome: Sendable {
    /// The changes were made and are durable.
    case committed

    /// A record has another revision than expected. Nothing was changed. If a turn is included, the next
    /// attempt can use it, and no other writer can commit before it.
    case conflict((any CommitTurn)?)

    /// It is not known whether the changes were made; the error says why. They may take effect later, may have
    /// been made already, or may be lost in a power cut. A read that still finds the old records proves
    /// nothing.
    case unknown(any Error)
}

/// A turn to commit to a namespace. See ``RecordStorage/takeTurn(in:)``.
public protocol CommitTurn: AnyObject, Sendable {
    /// Ends the turn. Deallocating it does the same.
    func release()
}

/// The limits and guarantees of a storage.
public struct StorageLimits: Sendable, Hashable {
    /// The maximum length of a record, in bytes.
    public let maximumLength: Int

    /// The maximum number of changes in a commit.
    public let maximumChanges: Int

    /// Whether all changes of a commit take effect at the same instant, and several records are read as of the
    /// same instant. If false, this holds only for each record separately.
    public let isTransactional: Bool

    /// Creates limits.
    ///
    /// - Parameters:
    ///   - maximumLength: The maximum length of a record, in bytes.
    ///   - maximumChanges: The maximum number of changes in a commit, at least two.
    ///   - isTransactional: Whether commits and reads of several records take effect at one instant.
    public init(maximumLength: Int, maximumChanges: Int, isTransactional: Bool) {
        self.maximumLength = maximumLength
        self.maximumChanges = maximumChanges
        self.isTransactional = isTransactional
    }
}
