/// Whether a write may overwrite an existing item or create a new one.
///
/// Attributes that a write does not set keep their values: class, label, comment and searchable attributes. The expiry
/// belongs to the value: with ``replace``, the new value never expires unless the write sets an expiry. With
/// ``updateOnly``, the old expiry is kept. An expired item counts as absent.
public enum WritePolicy: String, Sendable, Hashable, Codable, CaseIterable {
    /// Stores the value in either case. The default.
    case replace

    /// Stores the value only if the item does not exist, like `SecItemAdd`. Otherwise throws
    /// ``LockboxError/duplicateItem(key:)``.
    case addOnly

    /// Stores the value only if the item exists, like `SecItemUpdate`, and keeps its expiry. Otherwise throws
    /// ``LockboxError/itemNotFound(key:)``.
    case updateOnly
}

extension WritePolicy {
    /// Checks that the policy allows a write.
    ///
    /// - Parameters:
    ///   - key: The item's key without its prefix, for the error.
    ///   - exists: Whether the item exists. An item that has expired by the date of the write does not; one that cannot be
    ///     read does.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``.
    public func check(key: String, exists: Bool) throws(LockboxError) {
        switch (self, exists) {
        case (.addOnly, true): throw LockboxError.duplicateItem(key: key)
        case (.updateOnly, false): throw LockboxError.itemNotFound(key: key)
        default: break
        }
    }
}
