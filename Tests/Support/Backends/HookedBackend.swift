import Foundation

import Lockbox
@testable import LockboxCore

/// Does something more, or something else, where a test says so.
struct HookedBackend: WrappingBackend {
    var wrapped: any LockboxBackend = InMemoryBackend()
    /// Before a value is read, alone or with its attributes.
    var beforeReading: @Sendable (ItemKey) -> Void = { _ in }
    var beforeUpdating: @Sendable () -> Void = {}
    var afterUpdating: @Sendable () -> Void = {}
    var afterWriting: @Sendable () -> Void = {}
    var forgetsUpdates = false
    var refusesBatches = false

    func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        beforeReading(key)
        return try wrapped.value(for: key, now: now)
    }

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        beforeReading(key)
        return try wrapped.item(for: key, now: now)
    }

    func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try wrapped.attributes(for: key, now: now)
    }

    func write(_ changes: ItemChanges, to key: ItemKey) throws {
        try wrapped.write(changes, to: key)
        afterWriting()
    }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        if forgetsUpdates { return _ = try change(nil) }
        beforeUpdating()
        try wrapped.update(key, now: now, change)
        afterUpdating()
    }

    func apply(_ operations: [ItemOperation]) throws {
        try wrapped.apply(operations)
        if refusesBatches { throw LockboxError.storageFailure(operation: "fsync", path: "store", errno: EIO) }
    }

    func removeAll(prefix: String) throws { try wrapped.removeAll(prefix: prefix) }

    func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        try wrapped.removeExpired(prefix: prefix, now: now, unreadable: unreadable)
    }
}
