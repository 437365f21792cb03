extension LockboxBackend {
    /// Copies items into another backend, with their attributes and classes.
    ///
    /// `progress` runs on another thread.
    @discardableResult
    public func copyItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ImportPolicy = .keep,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> TransferReport {
        try await offPool {
            try copyItems(to: other, prefix: prefix, existing: existing, progress: progress)
        }
    }

    /// Moves items into another backend, with their attributes and classes. At no instant is an item in neither.
    ///
    /// `progress` runs on another thread.
    @discardableResult
    public func moveItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ImportPolicy = .keep,
        progress: @escaping @Sendable (StoreProgress) -> Void = { _ in }
    ) async throws -> TransferReport {
        try await offPool {
            try moveItems(to: other, prefix: prefix, existing: existing, progress: progress)
        }
    }
}
