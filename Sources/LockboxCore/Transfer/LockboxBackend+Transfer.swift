extension LockboxBackend {
    /// Copies items to another backend, with their attributes and accessibility classes. Expired items are included.
    ///
    /// The copy can be repeated: items that are already identical in the destination are not written again, but are
    /// durable, too, when it returns.
    ///
    /// - Parameters:
    ///   - other: The destination.
    ///   - prefix: The key prefix whose items are copied. If `nil`, all items are.
    ///   - existing: How to treat a different, unexpired item under the same key in the destination.
    ///   - progress: Called after each item.
    /// - Returns: The outcome for each item. An error that concerns a single item is reported here and does not
    ///   end the copy.
    /// - Throws: With the policy ``ExistingItemPolicy/fail``, ``LockboxError/duplicateItem(key:)`` before any item is
    ///   written. Any error that prevents the items from being listed.
    @discardableResult
    public func copyItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ExistingItemPolicy = .keep,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> TransferReport {
        try Transfer(source: self, destination: other, policy: existing).run(
            prefix,
            removing: false,
            progress
        )
    }

    /// Moves items to another backend, with their attributes and accessibility classes. Expired items are included.
    ///
    /// An item is removed from this backend only after it has been read back from the destination, and only if
    /// it has not changed meanwhile. An item is never absent from both backends. An interrupted move can be
    /// repeated. An item that another writer removes after it has been read may be in the destination all the same.
    ///
    /// - Parameters:
    ///   - other: The destination.
    ///   - prefix: The key prefix whose items are moved. If `nil`, all items are.
    ///   - existing: How to treat a different, unexpired item under the same key in the destination.
    ///   - progress: Called after each item.
    /// - Returns: The outcome for each item. Items that were not transferred stay in this backend. If another writer
    ///   changes an item during the move, its error is ``LockboxError/conflict(record:)``.
    /// - Throws: With the policy ``ExistingItemPolicy/fail``, ``LockboxError/duplicateItem(key:)`` before any item is
    ///   written. ``LockboxError/invalidKey(reason:)`` if both backends are the same store. Any error that
    ///   prevents the items from being listed.
    @discardableResult
    public func moveItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ExistingItemPolicy = .keep,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> TransferReport {
        try Transfer(source: self, destination: other, policy: existing).run(prefix, removing: true, progress)
    }
}
