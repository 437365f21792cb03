import Foundation
import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore

/// The parts of a backend that its author did not write.
@Suite struct BackendDefaultsTests {
    /// The five methods that a backend must have.
    private struct SmallBackend: LockboxBackend {
        let wrapped = InMemoryBackend()
        /// Another thread's action when the items have been listed.
        var afterList: @Sendable (InMemoryBackend) -> Void = { _ in }

        func item(for key: ItemKey, now: Date?) -> StoredItem? { wrapped.item(for: key, now: now) }

        func attributes(prefix: String, now: Date?) -> [ItemKey: ItemAttributes] {
            defer { afterList(wrapped) }
            return wrapped.attributes(prefix: prefix, now: now)
        }

        func prefixes() -> Set<String> { wrapped.prefixes() }

        func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
            try wrapped.update(key, now: now, change)
        }

        func remove(_ key: ItemKey) { wrapped.remove(key) }
    }

    @Test(arguments: BackendConformance.all)
    func fiveMethodsAreEnough(_ requirement: BackendConformance) throws {
        try requirement.check { SmallBackend() }
    }

    private func backend(_ afterList: @escaping @Sendable (InMemoryBackend) -> Void) throws -> SmallBackend {
        let backend = SmallBackend(afterList: afterList)
        try Lockbox(keyPrefix: TestStore.prefix, backend: backend.wrapped)
            .archiveObject("old", forKey: "k", options: WriteOptions(expires: .at(.distantPast)))
        return backend
    }

    @Test func whatIsReplacedMeanwhileIsNotRemovedAsExpired() throws {
        let backend = try backend { other in
            #expect(throws: Never.self) {
                try Lockbox(keyPrefix: TestStore.prefix, backend: other).archiveObject("new", forKey: "k")
            }
        }
        #expect(try backend.removeExpired(prefix: TestStore.prefix, now: Date()) == 0)
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "new")
    }

    @Test func whatIsRemovedMeanwhileIsNotCounted() throws {
        let backend = try backend { $0.removeAll(prefix: TestStore.prefix) }
        #expect(try backend.removeExpired(prefix: TestStore.prefix, now: Date()) == 0)
    }

    @Test func whatIsChangedDuringAMoveIsNotRemoved() throws {
        var backend = HookedBackend()
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: backend.wrapped)
        try lockbox.archiveObject("old", forKey: "k")
        backend.afterUpdating = {
            #expect(throws: Never.self) { try lockbox.archiveObject("newer", forKey: "k") }
        }
        let moving = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
        expectError(.conflict) { try moving.moveObject(forKey: "k", toKey: "new") }
        #expect(try lockbox.unarchiveObject(forKey: "k") == "newer")
    }
}
