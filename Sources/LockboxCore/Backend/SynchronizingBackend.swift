/// A backend whose writes can be seen before they are durable.
///
/// A copy to such a backend synchronizes what it finds there: whoever wrote it may have been killed before it was durable.
public protocol SynchronizingBackend: LockboxBackend {
    /// Makes what was written under a prefix durable, in case a process was killed before it could do so.
    ///
    /// - Parameter prefix: The key prefix. It need not have items.
    /// - Throws: ``LockboxError`` if it fails.
    func synchronize(prefix: String) throws
}
