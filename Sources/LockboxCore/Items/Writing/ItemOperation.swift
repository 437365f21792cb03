public import LockboxPlatform

/// One operation of a batch: see ``LockboxBackend/apply(_:)``.
///
/// There will be no other cases before the next major version: a backend has to handle all of them.
public enum ItemOperation: Sendable, Hashable {
    /// Creates an item, or changes the parts of an existing one that the changes set.
    case write(ItemChanges, to: ItemKey, policy: WritePolicy = .replace)

    /// Removes an item, readable or not. Does nothing if it is absent.
    case remove(ItemKey)

    /// Removes an item that can be read. If it is locked, or cannot be read for another reason, that error is thrown. Does
    /// nothing if it is absent. An item that has expired by `now` counts as absent, and may be removed.
    ///
    /// Archiving `nil` does this, because the `nil` may be that of a read that failed.
    case removeReadable(ItemKey, now: Date)

    /// The item's key.
    public var key: ItemKey {
        switch self {
        case .write(_, let key, _), .remove(let key), .removeReadable(let key, _): key
        }
    }

    /// The creation of an item.
    package static func add(_ item: StoredItem) -> Self {
        .write(ItemChanges(item), to: item.key, policy: .addOnly)
    }

    /// How many items are read and then written in one batch, where there may be any number: as many as files are
    /// open at once. More would hardly be faster.
    package static let batch = 64

    /// How many bytes of values are kept in memory for a batch. A single value may have more.
    package static let batchSize = 4 << 20

    package var createsItem: Bool {
        if case .write(let changes, _, let policy) = self { changes.createsItem(policy) } else { false }
    }

    /// - Throws: ``LockboxError/itemNotFound(key:)`` for a write, which without a store has nothing to change.
    package func checkIsRemoval() throws(LockboxError) {
        if case .write(_, let key, _) = self { throw .itemNotFound(key: key.key) }
    }

    /// Checks that each operation of a batch is for another key.
    ///
    /// A backend with a ``LockboxBackend/apply(_:)`` of its own calls this first.
    ///
    /// - Parameter operations: The operations of the batch.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if two operations have the same key.
    public static func checkKeysDiffer(_ operations: [ItemOperation]) throws(LockboxError) {
        var keys: Set<ItemKey> = []
        for operation in operations where !keys.insert(operation.key).inserted {
            let key = String(reflecting: operation.key.key)
            throw .invalidKey(reason: "the batch has two operations for the key \(key)")
        }
    }
}

extension ItemChanges {
    /// Whether the write may create an item.
    package func createsItem(_ policy: WritePolicy) -> Bool { value != nil && policy != .updateOnly }
}
