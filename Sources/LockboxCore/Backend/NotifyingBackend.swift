/// A backend that can report changes.
public protocol NotifyingBackend: LockboxBackend {
    /// Begins to report changes of the items with a prefix, whoever makes them.
    ///
    /// A change that begins after this call has returned is reported once it can be read. A change may be reported
    /// more than once, and several changes of an item only once. An item that is created and removed before it is noticed
    /// need not be reported.
    ///
    /// - Parameters:
    ///   - prefix: The key prefix.
    ///   - report: Called with each change, on any thread, perhaps before this call returns. After a failure
    ///     nothing is reported any more.
    /// - Returns: A closure that ends the subscription. It may be called more than once, and from `report`.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this backend cannot report changes, or another
    ///   ``LockboxError``.
    func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) throws -> @Sendable () -> Void
}
