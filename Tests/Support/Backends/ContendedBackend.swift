import Foundation

import Lockbox
@testable import LockboxCore

/// A backend whose closures always run twice, as when another writer comes first: once with an item that is gone by then, and
/// once with what is really there.
struct ContendedBackend: WrappingBackend {
    let wrapped: any LockboxBackend

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try wrapped.update(key, now: now) { current in
            _ = try? change(itemOfAnotherWriter(key, current))
            return try change(current)
        }
    }

    private func itemOfAnotherWriter(_ key: ItemKey, _ current: StoredItem?) throws -> StoredItem {
        try StoredItem(
            key: key,
            value: ArchivedValue(data: Data("by another writer".utf8), format: .data),
            accessibility: current?.attributes.accessibility ?? .whenUnlocked,
            modified: Date(timeIntervalSinceReferenceDate: 0)
        )
    }
}
