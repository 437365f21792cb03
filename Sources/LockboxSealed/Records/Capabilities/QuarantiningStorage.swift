import LockboxCore

/// A storage that can set a record aside, readable or not, and keep its bytes.
public protocol QuarantiningStorage: RecordStorage {
    /// Sets a record aside. Afterwards it is absent.
    ///
    /// - Parameter record: The record's name.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: ``LockboxError/missing(record:)`` if the record does not exist, or another ``LockboxError`` if
    ///   it cannot be set aside.
    func quarantine(_ record: RecordName) throws -> String

    /// Sets a record aside under a lock of the caller.
    ///
    /// The default implementation releases the lock first.
    ///
    /// - Parameters:
    ///   - record: The record's name.
    ///   - lock: The lock of the record's namespace, from ``LockingStorage/lock(_:)``, or `nil`. The caller releases it.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: Any error of ``quarantine(_:)``.
    func quarantine(_ record: RecordName, lock: (any StorageLock)?) throws -> String
}

extension QuarantiningStorage {
    /// Releases the lock first.
    public func quarantine(_ record: RecordName, lock: (any StorageLock)?) throws -> String {
        lock?.release()
        return try quarantine(record)
    }
}
