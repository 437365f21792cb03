public import LockboxCore

extension Lockbox {
    /// Migrates items from an older version of the app, or from another library, into this lockbox.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> MigrationReport {
        try await offPool { try migrate(migration, dryRun: dryRun, progress: progress) }
    }
}
