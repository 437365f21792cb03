public import LockboxCore
import LockboxPlatform

/// Writes and removals that a ``Lockbox`` performs together: see `batch(_:)`.
public struct LockboxBatch {
    /// The operations, in the order in which they were added.
    public internal(set) var operations: [ItemOperation] = []

    let lockbox: Lockbox

    init(_ lockbox: Lockbox) { self.lockbox = lockbox }

    /// Adds a write to the batch.
    ///
    /// Attributes that you do not pass keep their values: class, label, comment and searchable attributes. The expiry
    /// belongs to the value: with `.replace`, the new value never expires unless `expires` says so. With `.updateOnly`,
    /// the old expiry is kept.
    ///
    /// - Parameters:
    ///   - value: The value to store. It is encoded now. `nil` removes the item, whatever the policy, if this program can
    ///     read it when the batch is performed.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - accessibility: When the value can be read. If `nil`, the class of the existing item, or
    ///     ``Accessibility/whenUnlocked`` for a new one.
    ///   - expires: When the item expires.
    ///   - label: A short text for people, at most 4,096 bytes. Not for secrets.
    ///   - comment: A longer text for people, at most 4,096 bytes. Not for secrets.
    ///   - attributes: Texts by name that the item can be found by. Not for secrets.
    ///   - policy: Whether to overwrite an existing item, and whether to create a new one.
    /// - Throws: ``LockboxError/invalidKey(reason:)``, ``LockboxError/encodingFailed(key:underlying:)`` or
    ///   ``LockboxError/valueTooLarge(size:limit:)``.
    public mutating func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        accessibility: Accessibility? = nil,
        expires: Expiry = .automatic,
        label: AttributeChange<String> = .unchanged,
        comment: AttributeChange<String> = .unchanged,
        attributes: AttributeChange<[String: String]> = .unchanged,
        policy: WritePolicy = .replace
    ) throws(LockboxError) {
        guard let archived = try lockbox.archive(value, key) else {
            return operations.append(try lockbox.removal(byNil: key))
        }
        let changes = ItemChanges(
            value: archived,
            accessibility: accessibility,
            expires: expires,
            label: label,
            comment: comment,
            attributes: attributes,
            modified: lockbox.now()
        )
        operations.append(.write(changes, to: try lockbox.itemKey(key), policy: policy))
    }

    /// Adds a removal to the batch.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Throws: ``LockboxError/invalidKey(reason:)``.
    public mutating func removeObject(forKey key: String) throws(LockboxError) {
        operations.append(.remove(try lockbox.itemKey(key)))
    }
}

extension LockboxBatch: CustomStringConvertible, CustomReflectable {
    /// The number of operations.
    public var description: String { "LockboxBatch(\(operations.count) operations)" }

    /// Keeps `dump(_:)` from showing the values.
    public var customMirror: Mirror { Mirror(self, children: ["operations": operations.count]) }
}
