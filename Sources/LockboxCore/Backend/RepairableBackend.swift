/// A backend whose unreadable items can be removed or set aside, even if their keys are not known.
public protocol RepairableBackend: LockboxBackend {
    /// Removes an unreadable item. Does nothing if it is absent, or if it is readable by now: another writer may have
    /// replaced it since it was listed.
    ///
    /// - Parameter record: Identifies the item: see ``UnreadableItem/record``.
    /// - Returns: `false` if the item is readable, and stays.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if `record` is not the record of an item of this store, for
    ///   example if it is empty;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if its value is locked, so that the store cannot check whether it is
    ///   readable; any other ``LockboxError`` if it cannot be removed.
    @discardableResult
    func remove(record: String) throws -> Bool

    /// Sets an unreadable item aside: it no longer counts as an item, and its bytes are kept.
    ///
    /// - Parameter record: Identifies the item: see ``UnreadableItem/record``.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: ``LockboxError/conflict(record:)`` if it is readable by now; ``LockboxError/interactionNotAllowed(_:)`` if
    ///   its value is locked; ``LockboxError/missing(record:)`` if it is absent; ``LockboxError/invalidKey(reason:)`` if
    ///   `record` is not the record of an item of this store; ``LockboxError/notSupported(operation:)`` if the storage
    ///   cannot set records aside.
    @discardableResult
    func quarantine(record: String) throws -> String
}
