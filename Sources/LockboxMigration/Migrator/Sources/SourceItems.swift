import LockboxCore
import LockboxPlatform

/// The items of a source when a migration begins.
package protocol SourceItems {
    /// Returns the items' keys, in the order of the source if it has one.
    func keys() throws -> [String]

    /// Returns an item, or nil if it does not exist or is already in the new format.
    func item(forKey key: String) throws -> SourceItem?

    /// Removes items that have not changed since they were read.
    ///
    /// - Returns: The keys of the items that have changed, which are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String>
}
