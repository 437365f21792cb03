public import LockboxCore

extension MigrationSource {
    /// Returns the keys of all items in a source, for example to migrate all of them. Of ``store``, only those of
    /// items that Lockbox 2 stored: the others are in place.
    ///
    /// - Parameter lockbox: The lockbox into which the items would be migrated. Nothing is changed.
    /// - Returns: The keys; empty if the source does not exist.
    /// - Throws: ``LockboxError`` if the source cannot be read.
    public func keys(for lockbox: Lockbox) throws -> [String] { try open(lockbox, lockbox.now()).keys() }

    /// Returns the keys of all items in a source, for example to migrate all of them.
    public func keys(for lockbox: Lockbox) async throws -> [String] {
        try await offPool { try keys(for: lockbox) }
    }
}
