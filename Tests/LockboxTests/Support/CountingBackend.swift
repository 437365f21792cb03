import Foundation

import Lockbox
@testable import LockboxCore

/// Counts the calls to another backend.
struct CountingBackend: LockboxBackend {
    private let wrapped: any LockboxBackend
    private let count = Protected(0)

    init(wrapped: any LockboxBackend = InMemoryBackend()) { self.wrapped = wrapped }

    var calls: Int { count.withLock { $0 } }

    private func counted() -> any LockboxBackend {
        count.withLock { $0 += 1 }
        return wrapped
    }

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? { try counted().item(for: key, now: now) }

    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        try counted().attributes(prefix: prefix, now: now)
    }

    func prefixes() throws -> Set<String> { try counted().prefixes() }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try counted().update(key, now: now, change)
    }

    func remove(_ key: ItemKey) throws { try counted().remove(key) }
}
