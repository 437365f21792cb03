import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// An item that is copied or moved to where it is, and a store that is copied into itself.
@Suite struct OntoItselfTests {
    private let backend = SealedBackend.inMemory()
    private let key: ItemKey

    init() throws {
        key = try ItemKey(prefix: TestStore.prefix, key: "k")
        try backend.lockbox().archiveObject("v", forKey: "k")
    }

    @Test(arguments: WritePolicy.allCases) func anItemStaysAsItIs(_ policy: WritePolicy) throws {
        let before = try backend.item(for: key, now: nil)
        for call in [backend.move, backend.copy] {
            try call(key, key, policy, Date())
            #expect(try backend.item(for: key, now: nil) == before)
        }
        try backend.remove(key)
        for call in [backend.move, backend.copy] {
            expectError(.itemNotFound) { try call(key, key, policy, Date()) }
        }
    }

    /// Another writer removes all items when the copy has read them, alone or with others.
    @Test(arguments: [ExistingItemPolicy.keep, .replace], [1, 3])
    func aCopyOfAStoreBringsNothingBack(_ policy: ExistingItemPolicy, count: Int) throws {
        for number in 1..<count { try backend.lockbox().archiveObject("v", forKey: "\(number)") }
        let source = EmptiedBackend(wrapped: backend, last: count)
        _ = try source.copyItems(to: backend, existing: policy)
        #expect(try backend.attributes(prefix: TestStore.prefix, now: nil).isEmpty)
    }
}

/// Loses all items once it has read so many.
private struct EmptiedBackend: WrappingBackend {
    let wrapped: any LockboxBackend
    let last: Int
    private let count = Protected(0)

    init(wrapped: any LockboxBackend, last: Int) { (self.wrapped, self.last) = (wrapped, last) }

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        let item = try wrapped.item(for: key, now: now)
        if count.next() == last { try wrapped.removeAll(prefix: key.prefix) }
        return item
    }
}
