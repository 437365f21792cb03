/// How an import, a copy or a move treats an item that already exists in the destination with a different value
/// or attributes.
///
/// An expired item in the destination counts as absent.
public enum ExistingItemPolicy: String, Sendable, Hashable, Codable, CaseIterable {
    /// Keep the existing item. An import of a backup replaces one that is damaged.
    case keep
    /// Overwrite the existing item.
    case replace
    /// Throw ``LockboxError/duplicateItem(key:)`` before any item is written.
    case fail
}
