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
}
