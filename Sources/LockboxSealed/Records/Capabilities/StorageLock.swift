/// The exclusive lock of a namespace, while it is held. See ``LockingStorage``.
public protocol StorageLock: AnyObject, Sendable {
    /// Releases the lock. Deallocating it does the same.
    func release()
}
