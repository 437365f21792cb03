public import LockboxCore

extension Lockbox {
    /// Migrates items from an older version of the app, or from another library, into this lockbox.
    ///
    /// All old items are read before anything is written, and each new item is read back before the old one is
    /// removed. An item that cannot be read, or cannot be converted exactly, is left unchanged and listed in the report. An
    /// existing item in the new format is never overwritten.
    ///
    /// If the migration has a name, the store remembers which items are done. A later run migrates a done item again only
    /// if it has reappeared in the source, for example because an older version of the app has run. If the source cannot be
    /// searched, the item is refused. If old items are kept, done items are skipped. Items that were refused or absent are
    /// tried again. The next run completes an interrupted migration. If several processes run it at the same time, one does
    /// the work and the others wait. If that process is killed, or makes no progress for five seconds, another one takes
    /// over.
    ///
    /// - Parameters:
    ///   - migration: The items to migrate, and their source.
    ///   - dryRun: Whether only to report what would be done. With a backend that is not a ``LockableBackend``,
    ///     a dry run cannot tell whether the new accessibility classes are open.
    ///   - progress: Called after each item. Not called in a dry run.
    /// - Returns: The outcome for each item.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item or its new class is locked, before
    ///   anything is migrated; ``LockboxError/invalidKey(reason:)`` if its name or a key is empty or too long,
    ///   or if its items contradict each other: two have the same old or new key, one moves to the old key of
    ///   another, or an old item is to be kept under the new item's key;
    ///   ``LockboxError`` if the source or the store cannot be read or written. No item is lost, and the
    ///   migration can be repeated.
    @discardableResult
    public func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> MigrationReport {
        let run = try MigrationRun(migration, self)
        return try dryRun ? run.dryRun() : run.perform(progress)
    }
}
