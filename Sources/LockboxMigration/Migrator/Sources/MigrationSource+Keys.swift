public import LockboxCore

extension MigrationSource {
    /// Returns the keys of all items in a source, for example to migrate all of them. For ``store``, returns only the keys
    /// of items that Lockbox 2 stored.
    ///
    /// - Parameters:
    ///   - lockbox: The lockbox into which the items would be migrated. Nothing is changed.
    ///   - unreadable: Called with each item of a backend that cannot be read, and so stays in the source. By default, its
    ///     error is thrown.
    /// - Returns: The keys of the items that can be read; empty if the source does not exist.
    /// - Throws: ``LockboxError`` if the source cannot be read at all.
    public func keys(for lockbox: Lockbox, unreadable: (UnreadableItem) throws -> Void = { throw $0.error })
        throws
        -> [String]
    {
        try open(lockbox, lockbox.now()).keys(unreadable: unreadable)
    }

    /// Returns the keys of all items in a source, for example to migrate all of them.
    ///
    /// Runs on another thread, and calls `unreadable` there. Canceling the task does not stop it. Parameters and errors are
    /// those of the synchronous form.
    public func keys(
        for lockbox: Lockbox,
        unreadable: @escaping @Sendable (UnreadableItem) throws -> Void = { throw $0.error }
    ) async throws -> [String] {
        try await offPool { try keys(for: lockbox, unreadable: unreadable) }
    }
}
