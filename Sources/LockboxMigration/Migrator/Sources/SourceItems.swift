package import LockboxCore
import LockboxPlatform

/// The items of a source when a migration begins.
package protocol SourceItems {
    /// Returns the items' keys, in the order of the source if it has one.
    func keys() throws -> [String]

    /// Returns an item, or nil if it does not exist.
    func item(forKey key: String) throws -> SourceItem?

    /// Removes items that have not changed since they were read.
    ///
    /// - Returns: The keys of the items that have changed, which are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String>

    /// Returns whether the backend that the items are in has this record.
    func contains(_ record: StoredItem) throws -> Bool
}

extension SourceItems {
    /// The items are not in a backend.
    package func contains(_ record: StoredItem) -> Bool { false }
}
