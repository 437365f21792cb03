package import LockboxCore
import LockboxPlatform

package struct SourceItem: Sendable {
    package let value: SourceValue
    /// The item as stored in a backend, if the source is one.
    let stored: StoredItem?

    package init(_ value: SourceValue, stored: StoredItem? = nil) {
        self.value = value
        self.stored = stored
    }

    /// The stored item, if it is in a new format. It is moved as it is.
    var new: StoredItem? { stored.flatMap { $0.value.format == .lockbox2 ? nil : $0 } }
}
