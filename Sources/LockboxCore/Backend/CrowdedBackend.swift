/// A backend in which items of other programs, which it does not show, may have an item's place.
package protocol CrowdedBackend: LockboxBackend {
    /// - Throws: What creating the item would throw, if another program's item has its place.
    func checkForForeignItem(_ key: ItemKey) throws(LockboxError)
}
