import LockboxCore
import LockboxMigration

extension Lockbox {
    /// Migrates items from an older version of the app, or from another library, into the ``default`` lockbox.
    ///
    /// - Throws: The errors of the instance method and of ``default``.
    @discardableResult
    public static func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> MigrationReport {
        try `default`.migrate(migration, dryRun: dryRun, progress: progress)
    }

    /// Migrates items from an older version of the app, or from another library, into the ``default`` lockbox.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public static func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> MigrationReport {
        try await `default`.migrate(migration, dryRun: dryRun, progress: progress)
    }
}
