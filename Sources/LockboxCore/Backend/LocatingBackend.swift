/// A backend whose errors name the record of the item that they are about.
package protocol LocatingBackend: LockboxBackend {
    /// Returns how errors refer to the record of an item, or nil if there is no store.
    func location(of key: ItemKey) throws -> String?
}

extension LockboxError {
    /// Whether the error, which a call for this item has thrown, is about its record, and not about the whole store.
    package func isAbout(_ key: ItemKey, in backend: any LockboxBackend) -> Bool {
        guard let location, let backend = backend as? any LocatingBackend else { return false }
        return (try? backend.location(of: key)) == location
    }
}
