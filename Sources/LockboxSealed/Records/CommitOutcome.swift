/// The result of a ``RecordStorage/commit(_:expecting:turn:)``.
///
/// There will be no other cases before the next major version: who commits has to handle all of them.
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
