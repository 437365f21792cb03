/// A change of a lockbox's items, as `changes()` reports it.
///
/// Minor versions may add cases. Treat one that you do not know as ``everything``.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum LockboxChange: Sendable, Hashable {
    /// The item with this key was written or removed.
    case item(String)

    /// An item was changed whose key cannot be read: it is damaged, or a damaged one was removed.
    case unknownItem

    /// Anything may have changed. There were more changes than the system remembers, or the store was moved or
    /// replaced.
    case everything
}
