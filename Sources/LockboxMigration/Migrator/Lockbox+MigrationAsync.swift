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

    /// Returns the keys of all items in a source, for example to migrate all of them.
    public func keys(of source: MigrationSource) async throws -> [String] {
        try await offPool { try keys(of: source) }
    }
}
