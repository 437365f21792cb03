/// The exclusive lock of a namespace, for the writer whose turn it is to commit. See ``RecordStorage/takeTurn(in:)``.
public protocol CommitTurn: AnyObject, Sendable {
    /// Ends the turn. Deallocating it does the same.
    func release()
}
