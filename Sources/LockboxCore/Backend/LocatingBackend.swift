/// A backend whose errors name the record of the item that they are about.
///
/// A migration skips an item that cannot be read, and ends if the whole store cannot: the location tells which. With any other
/// backend it skips ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)`` and
/// ``LockboxError/unsupportedVersion(record:version:)`` only.
public protocol LocatingBackend: LockboxBackend {
    /// Returns how errors refer to the record of an item, or `nil` if there is no store.
    ///
    /// - Parameter key: The item's key. The item need not exist.
    /// - Returns: The text that errors about this item, and about no other, have as their `record` or `path`.
    /// - Throws: ``LockboxError`` if the store cannot be read.
    func location(of key: ItemKey) throws -> String?
}

extension LockboxError {
    /// Whether the error, which a call for this item has thrown, is about its record, and not about the whole store.
    package func isAbout(_ key: ItemKey, in backend: any LockboxBackend) -> Bool {
        guard let location, let backend = backend as? any LocatingBackend else { return false }
        return (try? backend.location(of: key)) == location
    }
}
