public import LockboxCore

/// A storage that can report problems with its contents.
public protocol InspectableStorage: RecordStorage {
    /// Returns everything in the storage that is not a record, and everything that is not safe to use. Changes
    /// nothing.
    ///
    /// - Throws: ``LockboxError`` if the storage cannot be read at all.
    func findings() throws -> [StoreFinding]
}
