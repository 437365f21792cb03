/// How far a long call has come.
public struct StoreProgress: Sendable, Hashable {
    /// The items that are done.
    public let completed: Int

    /// All items, as far as is known.
    public let total: Int

    /// - Parameters:
    ///   - completed: The items that are done.
    ///   - total: All items, as far as is known.
    public init(completed: Int, total: Int) {
        self.completed = completed
        self.total = total
    }
}
