public import LockboxCore

extension Lockbox {
    /// Brings what an older version of the app, or another library, has stored into this lockbox, once.
    ///
    /// `progress` runs on another thread.
    @discardableResult
    public func migrate(
        _ migration: Migration,
        dryRun: Bool = false,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> MigrationReport {
        try await offPool { try migrate(migration, dryRun: dryRun, progress: progress) }
    }

    /// Returns the keys of the items that a source has now, for a migration of all of them.
    public func keys(of source: MigrationSource) async throws -> [String] {
        try await offPool { try keys(of: source) }
    }
}
