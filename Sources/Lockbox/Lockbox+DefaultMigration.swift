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
}
