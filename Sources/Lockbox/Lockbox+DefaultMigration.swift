import LockboxCore
import LockboxMigration

extension Lockbox {
    /// ``migrate(_:dryRun:progress:)-method`` on the ``default``.
    @discardableResult
    public static func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> MigrationReport {
        try `default`.migrate(migration, dryRun: dryRun, progress: progress)
    }

    /// Brings what an older version of the app, or another library, has stored into the ``default``, once.
    ///
    /// `progress` runs on another thread.
    @discardableResult
    public static func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> MigrationReport {
        try await `default`.migrate(migration, dryRun: dryRun, progress: progress)
    }
}
