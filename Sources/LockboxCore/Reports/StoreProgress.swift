/// The progress of a long call.
public struct StoreProgress: Sendable, Hashable {
    /// The number of items processed so far.
    public let completed: Int

    /// The number of all items, as far as is known.
    public let total: Int

    /// Creates a progress value.
    ///
    /// - Parameters:
    ///   - completed: The number of items processed so far.
    ///   - total: The number of all items, as far as is known.
    public init(completed: Int, total: Int) {
        self.completed = completed
        self.total = total
    }
}
