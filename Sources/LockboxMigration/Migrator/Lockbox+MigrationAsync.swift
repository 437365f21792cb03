public import LockboxCore

extension Lockbox {
    /// Migrates items from an older version of the app, or from another library, into this lockbox.
    ///
    /// `progress` is called on another thread.
    @discardableResult
    public func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> MigrationReport {
        try await offPool { try migrate(migration, dryRun: dryRun, progress: progress) }
    }
}
