/// The type of an optional that can be decoded.
protocol OptionalType {
    static func unarchived(by lockbox: Lockbox, _ value: ArchivedValue, _ key: String) throws(LockboxError)
        -> Self
}

extension Optional: OptionalType where Wrapped: Decodable {
    static func unarchived(by lockbox: Lockbox, _ value: ArchivedValue, _ key: String) throws(LockboxError)
        -> Self
    {
        try lockbox.unarchive(Wrapped.self, value, key)
    }
}
