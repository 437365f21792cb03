extension LockboxBackend {
    /// Copies items to another backend, with their attributes and accessibility classes.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func copyItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ExistingItemPolicy = .keep,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> TransferReport {
        try await offPool {
            try copyItems(to: other, prefix: prefix, existing: existing, progress: progress)
        }
    }

    /// Moves items to another backend, with their attributes and accessibility classes. An item is never absent
    /// from both.
    ///
    /// Runs on another thread, and calls `progress` there. Canceling the task does not stop it. Parameters and errors are those
    /// of the synchronous form.
    @discardableResult
    public func moveItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ExistingItemPolicy = .keep,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> TransferReport {
        try await offPool {
            try moveItems(to: other, prefix: prefix, existing: existing, progress: progress)
        }
    }
}
