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
        #expect(try lockbox.allKeys() == ["k"], "what was read of it is taken back")
    }

    /// It may be the other half of a move in the opposite direction.
    @Test(arguments: WritePolicy.allCases) func anEqualItemStopsAMoveInTwoSteps(_ policy: WritePolicy) throws
    {
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: SmallBackend())
        try lockbox.archiveObject("v", forKey: "a")
        try lockbox.copyObject(forKey: "a", toKey: "b")
        expectError(.duplicateItem) { try lockbox.moveObject(forKey: "b", toKey: "a", policy: policy) }
        #expect(try Set(lockbox.allKeys()) == ["a", "b"])
    }

    /// Another thread comes between the two steps of a copy.
    @Test(arguments: [nil, "newer"], [nil, "before"])
    func aCopyInTwoStepsIsOfWhatIsThere(_ change: String?, _ before: String?) throws {
        var backend = HookedBackend()
        let (lockbox, isDone) = (
            try Lockbox(keyPrefix: TestStore.prefix, backend: backend.wrapped), Protected(false)
        )
        try lockbox.archiveObject("old", forKey: "k")
        try lockbox.archiveObject(before, forKey: "copy")
        backend.afterUpdating = {
            guard isDone.raise() else { return }
            #expect(throws: Never.self) { try lockbox.archiveObject(change, forKey: "k") }
        }
        let copying = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
        let error = lockboxError { try copying.copyObject(forKey: "k", toKey: "copy", policy: .replace) }
        #expect(error?.code == (change == nil ? .itemNotFound : nil))
        #expect(try lockbox.unarchiveObject(forKey: "copy") == change ?? before)
    }

    /// Another thread moves an item out of the way of its removal.
    @Test func aRemovalOfAllItemsMissesNoneThatMoves() throws {
        let isDone = Protected(false)
        let backend = SmallBackend { other in
            guard isDone.raise() else { return }
            #expect(throws: Never.self) {
                try Lockbox(keyPrefix: TestStore.prefix, backend: other).moveObject(forKey: "a", toKey: "b")
            }
        }
        try Lockbox(keyPrefix: TestStore.prefix, backend: backend.wrapped).archiveObject("v", forKey: "a")
        try backend.removeAll(prefix: TestStore.prefix)
        #expect(backend.wrapped.prefixes().isEmpty)
    }
}
