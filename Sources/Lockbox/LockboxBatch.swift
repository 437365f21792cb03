public import LockboxCore
import LockboxPlatform

/// Writes and removals that a ``Lockbox`` performs together: see `batch(_:)`.
public struct LockboxBatch {
    /// The operations, in the order in which they were added.
    var operations: [ItemOperation] = []

    let lockbox: Lockbox

    init(_ lockbox: Lockbox) { self.lockbox = lockbox }

    /// Adds a write to the batch.
    ///
    /// - Parameters:
    ///   - value: The value to store. It is encoded now. `nil` removes the item, whatever the options, if this program can
    ///     read it when the batch is performed.
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - options: The settings besides the value, and whether the write may overwrite or create an item.
    /// - Throws: ``LockboxError/invalidKey(reason:)``, ``LockboxError/encodingFailed(key:underlying:)`` or
    ///   ``LockboxError/valueTooLarge(size:limit:)``.
    public mutating func archiveObject<Value: Encodable>(
        _ value: Value?,
        forKey key: String,
        options: WriteOptions = WriteOptions()
    ) throws(LockboxError) {
        operations.append(try lockbox.operation(lockbox.archive(value, key), key, options: options))
    }

    /// Adds a write to the batch.
    ///
    /// - Parameters:
    ///   - value: The value to store. It is encoded now. `nil` removes the item, as above.
    ///   - key: The key. Its options count where the call's name nothing.
    ///   - options: The settings besides the value, and whether the write may overwrite or create an item.
    /// - Throws: Any error of the other form.
    public mutating func archiveObject<Value>(
        _ value: Value,
        forKey key: LockboxKey<Value>,
        options: WriteOptions = WriteOptions()
    ) throws(LockboxError) {
        try archiveObject(value, forKey: key.name, options: options.over(key.options))
    }

    /// Adds a removal to the batch.
    ///
    /// - Parameter key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    /// - Throws: ``LockboxError/invalidKey(reason:)``.
    public mutating func removeObject(forKey key: String) throws(LockboxError) {
        operations.append(.remove(try lockbox.itemKey(key)))
    }

    /// Adds a removal to the batch.
    ///
    /// - Parameter key: The key.
    /// - Throws: ``LockboxError/invalidKey(reason:)``.
    public mutating func removeObject<Value>(forKey key: LockboxKey<Value>) throws(LockboxError) {
        try removeObject(forKey: key.name)
    }
}

extension LockboxBatch: Undescribed {
    /// The number of operations.
    package var summary: String { "LockboxBatch(\(operations.count) operations)" }
}
