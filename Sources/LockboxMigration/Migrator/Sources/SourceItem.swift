package import LockboxCore
import LockboxPlatform

package struct SourceItem: Sendable {
    package let value: SourceValue
    /// The item as stored in a backend, if the source is one.
    let stored: StoredItem?
    /// What the source knows of the item, if it knows more than its value. The new item keeps all but the date of
    /// modification.
    package let attributes: ItemAttributes?

    package init(_ value: SourceValue, stored: StoredItem? = nil) {
        self.value = value
        self.stored = stored
        attributes = stored?.attributes
    }

    package init(_ value: SourceValue, attributes: ItemAttributes) {
        self.value = value
        stored = nil
        self.attributes = attributes
    }

    /// The stored item, if it is in a new format. It is moved as it is.
    var new: StoredItem? { stored.flatMap { $0.value.format == .lockbox2 ? nil : $0 } }
}
