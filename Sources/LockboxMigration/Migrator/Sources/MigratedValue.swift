import LockboxCore
import LockboxPlatform

/// A decoded value, ready to be stored in the new format.
protocol MigratedValue: Sendable {
    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue
    /// Returns whether `archived` holds the same value. The bytes may differ, because dictionaries and sets
    /// have no order.
    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool
}
