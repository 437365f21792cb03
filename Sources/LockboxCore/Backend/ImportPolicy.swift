/// What ``SealedBackend/importBackup(from:passphrase:existing:progress:)`` does with an item that is there already, and is
/// not the same as the backup's. One that has expired counts as absent.
public enum ImportPolicy: String, Sendable, Hashable, Codable, CaseIterable {
    /// Keeps the store's item.
    case keep
    /// Takes the backup's item.
    case replace
    /// Imports nothing at all: ``LockboxError/duplicateItem(key:)``.
    case fail
}
