package import LockboxCore
import LockboxPlatform

/// The items of a source when a migration begins.
package protocol SourceItems {
    /// Returns the items' keys, in the order of the source if it has one.
    ///
    /// - Parameter unreadable: Called with each item whose key is not known, because it cannot be read.
    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String]

    /// Returns an item, or nil if it does not exist.
    func item(forKey key: String) throws -> SourceItem?

    /// Returns whether an item that an earlier run has done is there again. Does not read its value.
    func holds(_ key: String) throws -> Bool

    /// Removes items that have not changed since they were read.
    ///
    /// - Returns: The keys of the items that have changed, which are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String>

    /// Returns whether the backend that the items are in has this record.
    func contains(_ record: StoredItem) throws -> Bool

    /// Returns whether an error that reading an item has thrown is about this item alone.
    func isAbout(_ key: String, _ error: LockboxError) -> Bool
}

extension SourceItems {
    /// The items are not in a backend.
    package func contains(_ record: StoredItem) -> Bool { false }

    /// All items are in one place.
    package func isAbout(_ key: String, _ error: LockboxError) -> Bool { false }
}
