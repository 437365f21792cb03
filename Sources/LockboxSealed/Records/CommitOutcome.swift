public import LockboxCore

/// The result of a ``RecordStorage/commit(_:expecting:)``.
///
/// There will be no other cases before the next major version: who commits has to handle all of them.
public enum CommitOutcome: Sendable {
    /// The changes were made and are durable.
    case committed

    /// A record has another revision than expected. Nothing was changed.
    case conflict

    /// It is not known whether the changes were made; the error says why. They may take effect later, may have
    /// been made already, or may be lost in a power cut. A read that still finds the old records proves
    /// nothing. Usually ``LockboxError/outcomeUnknown(record:reason:)``.
    case unknown(LockboxError)
}
