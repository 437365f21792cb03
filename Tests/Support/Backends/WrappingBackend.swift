import LockboxCore
import LockboxPlatform

/// Items in another backend. A test's backend implements what it does in another way.
protocol WrappingBackend: LockboxBackend {
    var wrapped: any LockboxBackend { get }
}

extension WrappingBackend {
    func item(for key: ItemKey, now: Date?) throws -> StoredItem? { try wrapped.item(for: key, now: now) }

    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        try wrapped.attributes(prefix: prefix, now: now)
    }

    func prefixes() throws -> Set<String> { try wrapped.prefixes() }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try wrapped.update(key, now: now, change)
    }

    func remove(_ key: ItemKey) throws { try wrapped.remove(key) }
}
