import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Another process acts before whichever call of a move, a copy, a list or a removal of all items: of the system where items are
/// in files, of the storage where there are no locks.
@Suite(.timeLimit(.minutes(10))) struct MoveCallTests {
    enum Place: CaseIterable { case files, memory }

    static let places = Place.allCases.flatMap { place in [nil, "com.example.other"].map { (place, $0) } }

    private typealias Opening = @Sendable () -> SealedBackend

    private let now = Date()

    /// - Parameter body: Receives the backend whose calls are interrupted, and what opens others.
    private func atEveryCall(
        in place: Place,
        _ other: @escaping @Sendable (SealedBackend) -> Void,
        _ body: (SealedBackend, Opening, Interruption) throws -> Void
    ) throws {
        var number = 0
        while true {
            number += 1
            let (store, memory) = (try TestStore(), InMemoryStorage())
            let open: Opening = {
                place == .files ? store.backend(lockTimeout: .milliseconds(20)) : Self.open(memory)
            }
            let interruption = Interruption(at: number) { other(open()) }
            let interrupted =
                place == .files
                ? store.backend(interruption.calls)
                : Self.open(InterruptedStorage(target: memory, interruption: interruption))
            try body(interrupted, open, interruption)
            if !interruption.hasHappened { break }
        }
        #expect(number > 3)
    }

    private static func open(_ storage: any RecordStorage) -> SealedBackend {
        SealedBackend(KeyStore(storage: storage, deviceKey: .stored, kernel: KernelKeyring { ENOSYS }))
    }

    private func key(_ name: String, _ prefix: String? = nil) throws -> ItemKey {
        try ItemKey(prefix: prefix ?? TestStore.prefix, key: name)
    }

    private func item(_ key: ItemKey, _ text: String = "v") throws -> StoredItem {
        let value = try ArchivedValue(data: Data(text.utf8), format: .data)
        return try StoredItem(key: key, value: value, modified: Date(timeIntervalSinceReferenceDate: 0))
    }

    private func text(_ key: ItemKey, _ backend: SealedBackend) throws -> String? {
        try backend.item(for: key, now: nil).map { String(decoding: $0.value.data, as: UTF8.self) }
    }

    // MARK: Moves

    /// Each finds what the other has half done: the item under both keys.
    @Test(arguments: places, WritePolicy.allCases)
    func movesInOppositeDirectionsLoseNothing(_ place: (Place, String?), _ policy: WritePolicy) throws {
        let (one, two, now) = (try key("one"), try key("two", place.1), now)
        let others: @Sendable (SealedBackend) -> Void = {
            try? $0.move(one, to: two, policy: policy, now: now)
        }
        try atEveryCall(in: place.0, others) { backend, open, interruption in
            for key in [one, two] { try open().write(item(key), policy: .replace) }
            interruption.raise()
            try? backend.move(two, to: one, policy: policy, now: now)
            let found = try [one, two].filter { try text($0, open()) == "v" }
            #expect(!found.isEmpty)
        }
    }

    /// Two moves were interrupted: the item is under three keys.
    @Test(arguments: places) func movesInACircleLoseNothing(_ place: (Place, String?)) throws {
        let (one, two, three, now) = (try key("one"), try key("two", place.1), try key("three"), now)
        let others: @Sendable (SealedBackend) -> Void = {
            try? $0.move(one, to: two, policy: .addOnly, now: now)
            try? $0.move(two, to: three, policy: .addOnly, now: now)
        }
        try atEveryCall(in: place.0, others) { backend, open, interruption in
            for key in [one, two, three] { try open().write(item(key), policy: .replace) }
            interruption.raise()
            try? backend.move(three, to: one, policy: .addOnly, now: now)
            let found = try [one, two, three].filter { try text($0, open()) == "v" }
            #expect(!found.isEmpty)
        }
    }

    /// What was under the new key, and what comes there meanwhile, is replaced only as the policy says.
    @Test(arguments: Place.allCases, WritePolicy.allCases)
    func aMoveToATakenKey(_ place: Place, _ policy: WritePolicy) throws {
        let (old, new, now) = (try key("old"), try key("new"), now)
        let others: @Sendable (SealedBackend) -> Void = { other in
            try? other.write(item(new, "theirs"), policy: .replace)
        }
        try atEveryCall(in: place, others) { backend, open, interruption in
            try open().write(item(old, "mine"), policy: .replace)
            interruption.raise()
            let isMoved = lockboxError { try backend.move(old, to: new, policy: policy, now: now) } == nil
            let (left, found) = (try text(old, open()), try text(new, open()))
            #expect(left == (isMoved ? nil : "mine"))
            // Another one may have replaced it again.
            #expect(found == "theirs" || found == (isMoved ? "mine" : nil))
        }
    }

    // MARK: Copies

    @Test(arguments: places) func aCopyBringsNothingBack(_ place: (Place, String?)) throws {
        let (source, copy, now) = (try key("source"), try key("copy", place.1), now)
        let isGone = Protected(false)
        let others: @Sendable (SealedBackend) -> Void = { other in
            _ = lockboxError {
                try other.removeAll(prefix: source.prefix)
                let isAbsent = try other.item(for: copy, now: nil) == nil
                isGone.withLock { $0 = isAbsent }
            }
        }
        try atEveryCall(in: place.0, others) { backend, open, interruption in
            isGone.withLock { $0 = false }
            try open().write(item(source), policy: .replace)
            interruption.raise()
            let error = lockboxError { try backend.copy(source, to: copy, policy: .addOnly, now: now) }
            #expect(error == nil || error?.code == .itemNotFound)
            #expect(try text(copy, open()) == nil || !isGone.withLock { $0 })
        }
    }

    @Test(arguments: places) func aCopyHasNoOldValue(_ place: (Place, String?)) throws {
        let (source, copy, now) = (try key("source"), try key("copy", place.1), now)
        let isNew = Protected(false)
        let others: @Sendable (SealedBackend) -> Void = { other in
            _ = lockboxError {
                try other.write(item(source, "new"), policy: .replace)
                let isAbsent = try other.item(for: copy, now: nil) == nil
                isNew.withLock { $0 = isAbsent }
            }
        }
        try atEveryCall(in: place.0, others) { backend, open, interruption in
            isNew.withLock { $0 = false }
            try open().write(item(source, "old"), policy: .replace)
            interruption.raise()
            try backend.copy(source, to: copy, policy: .addOnly, now: now)
            #expect(try text(copy, open()) == "new" || !isNew.withLock { $0 })
        }
    }

    @Test(arguments: Place.allCases) func ontoItselfNothingHappens(_ place: Place) throws {
        let (one, now) = (try key("one"), now)
        let others: @Sendable (SealedBackend) -> Void = { try? $0.remove(one) }
        try atEveryCall(in: place, others) { backend, open, interruption in
            try open().write(item(one), policy: .replace)
            interruption.raise()
            for policy in WritePolicy.allCases {
                for call in [backend.move, backend.copy] {
                    let error = lockboxError { try call(one, one, policy, now) }
                    #expect(error == nil || error?.code == .itemNotFound)
                }
            }
            #expect(try text(one, open()) == (interruption.hasHappened ? nil : "v"))
        }
    }

    /// The whole store, into itself by another path.
    @Test(arguments: [ExistingItemPolicy.keep, .replace], [1, 3])
    func aCopyOfAStoreIntoItselfBringsNothingBack(_ policy: ExistingItemPolicy, _ count: Int) throws {
        let keys = try (0..<count).map { try key("\($0)") }
        let isDone = Protected(false)
        let others: @Sendable (SealedBackend) -> Void = { other in
            let error = lockboxError { try other.removeAll(prefix: TestStore.prefix) }
            isDone.withLock { $0 = error == nil }
        }
        try atEveryCall(in: .files, others) { backend, open, interruption in
            isDone.withLock { $0 = false }
            for key in keys { try open().write(item(key), policy: .replace) }
            interruption.raise()
            try backend.copyItems(to: open(), existing: policy)
            let isEmpty = try open().attributes(prefix: TestStore.prefix, now: nil).isEmpty
            #expect(isEmpty || !isDone.withLock { $0 })
        }
    }

    // MARK: Walks over names

    @Test(arguments: Place.allCases) func aRemovalOfAllItemsMissesNoneThatMoves(_ place: Place) throws {
        let (from, to, now) = (try ["a", "b"].map { try key($0) }, try ["y", "z"].map { try key($0) }, now)
        let others: @Sendable (SealedBackend) -> Void = { other in
            for (old, new) in zip(from, to) { try? other.move(old, to: new, policy: .addOnly, now: now) }
        }
        try atEveryCall(in: place, others) { backend, open, interruption in
            for key in from { try open().write(item(key), policy: .replace) }
            interruption.raise()
            try backend.removeAll(prefix: TestStore.prefix)
            #expect(try open().attributes(prefix: TestStore.prefix, now: nil).isEmpty)
        }
    }

    @Test(arguments: Place.allCases) func aListHasWhatMoves(_ place: Place) throws {
        let (from, to, now) = (try ["a", "b"].map { try key($0) }, try ["y", "z"].map { try key($0) }, now)
        let others: @Sendable (SealedBackend) -> Void = { other in
            for (old, new) in zip(from, to) { try? other.move(old, to: new, policy: .addOnly, now: now) }
        }
        try atEveryCall(in: place, others) { backend, open, interruption in
            for key in from { try open().write(item(key), policy: .replace) }
            interruption.raise()
            let found = try backend.attributes(prefix: TestStore.prefix, now: nil).keys
            for (old, new) in zip(from, to) { #expect(found.contains(old) || found.contains(new)) }
        }
    }

    @Test(arguments: Place.allCases) func aPrefixWhoseOnlyItemMovesIsListed(_ place: Place) throws {
        let (old, new, now) = (try key("old"), try key("new"), now)
        let others: @Sendable (SealedBackend) -> Void = {
            try? $0.move(old, to: new, policy: .addOnly, now: now)
        }
        try atEveryCall(in: place, others) { backend, open, interruption in
            try open().write(item(old), policy: .replace)
            interruption.raise()
            #expect(try backend.prefixes() == [TestStore.prefix])
        }
    }

    /// Nothing that moves stays under the old keys.
    @Test func aRotationResealsWhatMoves() throws {
        let (old, new, now) = (try key("old"), try key("new"), now)
        let others: @Sendable (SealedBackend) -> Void = {
            try? $0.move(old, to: new, policy: .addOnly, now: now)
        }
        for place in Place.allCases {
            try atEveryCall(in: place, others) { backend, open, interruption in
                try open().write(item(old), policy: .replace)
                interruption.raise()
                let report = try backend.rotateKeys()
                #expect(report.isComplete && report.unrevokedCount == 0)
                #expect(try text(old, open()) == "v" || text(new, open()) == "v")
            }
        }
    }
}
