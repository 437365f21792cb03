/// A storage in files, with calls that no other one has.
package protocol FilingStorage: RecordStorage {
    /// The store's folder.
    var directory: String { get }

    /// Makes what others have renamed or removed in a namespace durable. The process that did it may have been killed before its own
    /// fsync.
    ///
    /// - Parameter namespace: The namespace, or `nil` for the records outside any. It need not exist.
    /// - Throws: ``LockboxError/outcomeUnknown(record:reason:wasMade:)`` if it fails.
    func synchronize(_ namespace: String?) throws

    /// Returns the first bytes of a record that ``RecordStorage/read(_:atLeast:maximum:_:)`` may refuse, or nil if it has fewer, or they
    /// cannot be read. Others may have written them.
    func unsafeBeginning(of record: RecordName, count: Int) -> [UInt8]?

    /// Returns the same value as long as no file is renamed into a namespace's folder. A removal need not change it. Nil if it cannot
    /// be told: there is no folder, a writer is at work or was killed, or on FUSE, which may show a change late.
    func moment(of namespace: String) throws -> FolderMoment?

    /// Shows others that this process lives, until the object is deallocated.
    ///
    /// - Parameter room: How many bytes to keep free for it.
    func presence(room: Int) throws -> Presence

    /// Whether the process lives that has made the object with this name.
    func isPresent(_ name: String) throws -> Bool
}

extension RecordStorage {
    /// The storage itself if it is in files. Nil for another one, whose commits are durable as soon as they are visible.
    package var asFiles: (any FilingStorage)? { self as? any FilingStorage }
}
