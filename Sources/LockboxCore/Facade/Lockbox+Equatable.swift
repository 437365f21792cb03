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
        guard left.keyPrefix == right.keyPrefix, type(of: left.backend) == type(of: right.backend) else {
            return false
        }
        guard let original = left.original else {
            return left.backend as AnyObject === right.backend as AnyObject
        }
        return original === right.original || left.backend.isEqual(to: right.backend)
    }

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
