/// What a write does when its key is taken, or is not.
///
/// An expired item counts as absent.
public enum WritePolicy: Sendable, Hashable, CaseIterable {
    /// Store the value either way. The default.
    case replace

    /// Store only if there is no such item; otherwise ``LockboxError/duplicateItem(key:)``. This is
    /// `SecItemAdd`.
    case addOnly

    /// Store only over an item that exists; otherwise ``LockboxError/itemNotFound(key:)``. This is
    /// `SecItemUpdate`.
    case updateOnly
}
