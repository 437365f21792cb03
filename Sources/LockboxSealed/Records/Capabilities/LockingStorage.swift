import LockboxCore

/// A storage that lets one writer at a time into a namespace, in order of arrival.
///
/// Its commits take the namespace's lock by themselves. A caller can also take it, for several commits in a row, or keep it
/// after a conflict, so that no other writer overtakes the next attempt. A storage that compares and changes records in one
/// step, as a database does, needs no locks and is none of these.
public protocol LockingStorage: RecordStorage {
    /// Waits for the exclusive lock of a namespace. Nobody else can commit to it until the lock is released or deallocated.
    ///
    /// - Parameter namespace: The namespace, or `nil` for the records outside any.
    /// - Throws: ``LockboxError/lockTimeout(location:)`` if the same holder keeps the lock for too long;
    ///   ``LockboxError/readOnly(location:reason:)`` if this process may not commit;
    ///   ``LockboxError/notSupported(operation:)`` if there are no locks, for a storage that passes its calls on to others.
    func lock(_ namespace: String?) throws -> any StorageLock

    /// Changes records as ``RecordStorage/commit(_:expecting:)`` does, under a lock that the caller may hold.
    ///
    /// - Parameters:
    ///   - changes: As in ``RecordStorage/commit(_:expecting:)``.
    ///   - expecting: As in ``RecordStorage/commit(_:expecting:)``.
    ///   - lock: The lock of the changed namespace if the caller holds it, from ``lock(_:)`` or from the attempt before, or
    ///     `nil`. After a conflict it is the lock that this call has taken. The caller releases it.
    /// - Returns: Whether the changes were made.
    /// - Throws: Any error of ``RecordStorage/commit(_:expecting:)`` and ``lock(_:)``.
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        lock: inout (any StorageLock)?
    ) throws -> CommitOutcome
}

extension LockingStorage {
    /// Holds no lock before and afterwards.
    public func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) throws -> CommitOutcome {
        var lock: (any StorageLock)?
        defer { lock?.release() }
        return try commit(changes, expecting: expecting, lock: &lock)
    }
}

extension RecordStorage {
    /// Waits for the lock of a namespace. Returns nil if the storage has no locks.
    func lockIfAny(_ namespace: String?) throws -> (any StorageLock)? {
        do { return try (self as? any LockingStorage)?.lock(namespace) } catch let error as LockboxError
            where error.code == .notSupported
        {
            return nil
        }
    }

    /// Commits under the lock that the caller holds, and keeps the lock after a conflict. Without, if the storage has no locks.
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        keeping lock: inout (any StorageLock)?
    ) throws -> CommitOutcome {
        guard let storage = self as? any LockingStorage else {
            return try commit(changes, expecting: expecting)
        }
        return try storage.commit(changes, expecting: expecting, lock: &lock)
    }
}
