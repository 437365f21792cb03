extension Lockbox: Equatable {
    /// Returns whether two lockboxes give access to the same items: whether their key prefixes and backends are
    /// equal. Coders and clocks are not compared.
    ///
    /// Two backends are equal if they are the same instance of a class, or equal values of an `Equatable` type.
    /// With a backend of any other type, only copies of the same lockbox are equal.
    ///
    /// - Parameters:
    ///   - left: A lockbox.
    ///   - right: Another lockbox.
    public static func == (left: Lockbox, right: Lockbox) -> Bool {
        left.keyPrefix == right.keyPrefix && left.hasSameBackend(as: right)
    }

    private func hasSameBackend(as other: Lockbox) -> Bool {
        guard type(of: backend) == type(of: other.backend) else { return false }
        guard let original else { return backend as AnyObject === other.backend as AnyObject }
        return original === other.original || backend.isEqual(to: other.backend)
    }

    /// Whether both give access to the same items. Two backends may have been opened for one store.
    func isSameStore(as other: Lockbox) -> Bool {
        if hasSameBackend(as: other) { return true }
        guard let key = try? itemKey("key"), let location = location(of: key) else { return false }
        return location == other.location(of: key)
    }

    func location(of key: ItemKey) -> String? { try? (backend as? any LocatingBackend)?.location(of: key) }

    /// Identifies the copies of one lockbox.
    final class Original: Sendable {}
}

extension LockboxBackend {
    fileprivate func isEqual(to other: any LockboxBackend) -> Bool {
        guard let self = self as? any Equatable else { return false }
        return self.equals(other)
    }
}

extension Equatable {
    fileprivate func equals(_ other: Any) -> Bool { other as? Self == self }
}
