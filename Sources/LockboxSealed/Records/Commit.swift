/// One change of a ``RecordStorage/commit(_:expecting:turn:)``.
public enum RecordChange: Sendable {
    /// Stores a record, in place of the one of that name, if there is one.
    case put(RecordName, [UInt8])

    /// Removes a record, if it is there.
    case remove(RecordName)

    /// The record that is changed.
    public var record: RecordName {
        switch self {
        case .put(let record, _), .remove(let record): record
        }
    }
}

/// What came of a ``RecordStorage/commit(_:expecting:turn:)``.
public enum CommitOutcome: Sendable {
    /// It took place, and is durable.
    case committed

    /// A record has another revision than was expected. Nothing was changed. With the turn, if there is one, nobody
    /// overtakes the next attempt.
    case conflict((any CommitTurn)?)

    /// It may take place, have taken place, or be lost in a power cut; the error says why that is not known. A reader that does
    /// not see it proves nothing.
    case unknown(any Error)
}

/// The turn to commit to a namespace; see ``RecordStorage/takeTurn(in:)``.
public protocol CommitTurn: AnyObject, Sendable {
    /// Lets the next one have it. Also done when nobody refers to it any more.
    func release()
}

/// What fits into a record and into a commit.
public struct StorageLimits: Sendable, Hashable {
    /// The longest record, in bytes.
    public let maximumLength: Int

    /// The most changes of one commit.
    public let maximumChanges: Int

    /// Whether all changes of a commit take place at one instant, or none, and several records are read as of one moment.
    /// Otherwise each record is so by itself.
    public let isTransactional: Bool

    /// The limits of a storage.
    ///
    /// - Parameters:
    ///   - maximumLength: The longest record, in bytes.
    ///   - maximumChanges: The most changes of one commit; at least two.
    ///   - isTransactional: Whether commits and reads of several records are each as of one moment.
    public init(maximumLength: Int, maximumChanges: Int, isTransactional: Bool) {
        self.maximumLength = maximumLength
        self.maximumChanges = maximumChanges
        self.isTransactional = isTransactional
    }
}
