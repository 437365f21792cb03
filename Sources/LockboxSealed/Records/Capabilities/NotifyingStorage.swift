/// A storage that can report changes.
public protocol NotifyingStorage: RecordStorage {
    /// Begins to report changes of the records in a namespace, whoever makes them.
    ///
    /// A change that begins after this call has returned is reported once it can be read.
    ///
    /// - Parameters:
    ///   - namespace: The namespace. It need not exist.
    ///   - report: Called with the names of changed records, on any thread, perhaps before this call returns. After
    ///     a failure nothing is reported any more.
    /// - Returns: A closure that ends the subscription. It may be called more than once, and from `report`.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this storage cannot report changes, or another
    ///   ``LockboxError``.
    func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws -> @Sendable () -> Void
}
