/// A backend whose writes can be seen before they are durable.
package protocol SynchronizingBackend: LockboxBackend {
    /// Makes what was written under a prefix durable, in case a process was killed before it could do so.
    ///
    /// - Parameter prefix: The key prefix. It need not have items.
    func synchronize(prefix: String) throws
}
