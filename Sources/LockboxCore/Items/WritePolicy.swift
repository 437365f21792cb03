/// What a write does when its key is taken, or is not.
///
/// An expired item counts as absent.
public enum WritePolicy: String, Sendable, Hashable, Codable, CaseIterable {
    /// Store the value either way. The default.
    case replace

    /// Store only if there is no such item; otherwise ``LockboxError/duplicateItem(key:)``. This is
    /// `SecItemAdd`.
    case addOnly

    /// Store only over an item that exists; otherwise ``LockboxError/itemNotFound(key:)``. This is
    /// `SecItemUpdate`.
    case updateOnly
}

extension WritePolicy {
    /// Throws if a write under this policy must not go on.
    package func check(key: String, exists: Bool) throws(LockboxError) {
        switch (self, exists) {
        case (.addOnly, true): throw LockboxError.duplicateItem(key: key)
        case (.updateOnly, false): throw LockboxError.itemNotFound(key: key)
        default: break
        }
    }
}
