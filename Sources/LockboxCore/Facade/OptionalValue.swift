import LockboxPlatform

/// An optional. Where its type is a generic parameter, Swift does not know that it is one.
protocol OptionalValue {
    /// Returns nil for nil.
    func archived(by lockbox: Lockbox, _ key: String) throws(LockboxError) -> ArchivedValue?
}

extension Optional: OptionalValue where Wrapped: Encodable {
    func archived(by lockbox: Lockbox, _ key: String) throws(LockboxError) -> ArchivedValue? {
        guard let self else { return nil }
        return try lockbox.archive(self, key)
    }
}
