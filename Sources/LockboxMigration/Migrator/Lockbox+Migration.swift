public import LockboxCore

extension Lockbox {
    /// Brings what an older version of the app, or another library, has stored into this lockbox, once.
    ///
    /// Everything is read before anything is written, and every new item is read back before an old one is removed. What
    /// cannot be read exactly is not guessed at: it stays as it is, and the report names it. It is remembered, where no
    /// key of an app can be, which items are done: the next run does not touch them, and looks again for those that
    /// were refused or absent. Interrupted at any point, the next run completes it. Of several processes that run it at once, one does
    /// it, and the others wait for it. If it was killed, or does nothing for five seconds, the next one takes over.
    ///
    /// An item of the new form is never overwritten.
    ///
    /// - Parameters:
    ///   - migration: What is to be done.
    ///   - dryRun: Whether to report what would be done, and do nothing. With a backend of an app's own it cannot know
    ///     whether the new classes are open.
    ///   - progress: Is called after each item.
    /// - Returns: What became of each item.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item, or its new class, is locked: nothing was migrated
    ///   then. ``LockboxError/invalidKey(reason:)`` for a migration that contradicts itself; ``LockboxError`` if the source or
    ///   the store cannot be read or written. Nothing is lost then: it can be run again.
    @discardableResult
    public func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> MigrationReport {
        let run = try MigrationRun(migration, self)
        return try dryRun ? run.dryRun() : run.perform(progress)
    }

    /// The keys of the items that a source has now, for a migration of all of them.
    ///
    /// - Parameter source: Any. Nothing is changed in it.
    /// - Returns: The keys; none if the source is not there.
    /// - Throws: ``LockboxError`` if the source cannot be read.
    public func keys(of source: MigrationSource) throws -> [String] { try source.open(self, now()).keys() }
}
