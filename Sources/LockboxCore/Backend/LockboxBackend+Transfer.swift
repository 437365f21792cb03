extension LockboxBackend {
    /// Copies items into another backend, with their attributes and classes.
    ///
    /// Run again, it passes over what is there exactly as it is here.
    ///
    /// - Parameters:
    ///   - other: Where to.
    ///   - prefix: Only this prefix's items; nil, all.
    ///   - existing: What is done with items that are there, not expired, and are others.
    ///   - progress: Is called after each item.
    /// - Returns: What became of each item.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` with the policy `fail`: nothing was written then. Whatever makes the items
    ///   impossible to list. What concerns one item only is in the report.
    @discardableResult
    public func copyItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ImportPolicy = .keep,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> TransferReport {
        try Transfer(source: self, destination: other, policy: existing).run(
            prefix,
            removing: false,
            progress
        )
    }

    /// Moves items into another backend, with their attributes and classes. Each is removed here when it has been read back
    /// from there, and only if it has not changed meanwhile: at no instant is it in neither.
    ///
    /// Interrupted, it can be run again. The parameters, and what it throws, are those of
    /// ``copyItems(to:prefix:existing:progress:)``.
    ///
    /// - Returns: What became of each item. What was not transferred was not removed.
    @discardableResult
    public func moveItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ImportPolicy = .keep,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> TransferReport {
        try Transfer(source: self, destination: other, policy: existing).run(prefix, removing: true, progress)
    }
}
