/// A turn to commit to a namespace. See ``RecordStorage/takeTurn(in:)``.
public protocol CommitTurn: AnyObject, Sendable {
    /// Ends the turn. Deallocating it does the same.
    func release()
}
