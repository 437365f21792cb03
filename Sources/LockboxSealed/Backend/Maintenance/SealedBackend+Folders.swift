import LockboxCore

/// A namespace that cannot be used makes no other one unreachable.
extension SealedBackend {
    /// Runs `body`, which lists a namespace. If it fails because of this namespace, for example because its folder is not
    /// safe to use, names the namespace and returns nil.
    ///
    /// - Throws: Other errors. A lock that is held for too long is no damage either.
    func skippingIfUnusable<Result>(
        _ namespace: String,
        _ unreadable: (UnreadableItem) throws -> Void,
        _ body: () throws -> Result
    ) throws -> Result? {
        do { return try body() } catch let error as LockboxError where error.code != .lockTimeout {
            guard let location = error.location, isIn(namespace, location) else { throw error }
            // No item has such a record, so a repair refuses it.
            try unreadable(UnreadableItem(key: nil, record: namespace, location: location, error: error))
            return nil
        }
    }

    /// Whether this is the namespace's folder, or something in it.
    private func isIn(_ namespace: String, _ location: String) -> Bool {
        "\(location)/".hasPrefix(storage.location(of: RecordName(namespace: namespace, name: "")))
    }
}
