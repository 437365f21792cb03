import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Migrations that are killed or stopped, and what others do meanwhile.
@Suite struct MigrationInterruptionTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    // MARK: Killed, stopped, or several at once

    /// From the N-th system call on nothing works any more, as for a process that is killed there. Every seventh: simulations kill at
    /// any.
    @Test(arguments: [false, true])
    func interruptedAtSystemCalls(_ isRenamed: Bool) throws {
        let items: [Migration.Item] = (0..<3).map { .string("k\($0)", to: isRenamed ? "new\($0)" : nil) }
        let migration = Migration("m", items: items)
        for key in 0..<3 { try write("value \(key)".utf8, "k\(key)") }
        var calls = Int.random(in: -6...0)
        var isDone = false
        while !isDone {
            calls += 7
            let store = try TestStore(copying: self.store)
            let dying = SystemCalls.failing(from: calls)
            let lockbox = try store.lockbox()
            // The lock of a killed process's file is free, which this one's is not.
            let report = try MigrationClaim.$patience.withValue(.zero) {
                isDone = (try? store.backend(dying).lockbox().migrate(migration).isComplete) ?? false
                return try lockbox.migrate(migration)
            }
            #expect(report.isComplete, "call \(calls)")
            #expect(try lockbox.allKeys() == Set(items.map(\.newKey)), "call \(calls)")
            for key in 0..<3 {
                let value = try lockbox.unarchiveObject(String.self, forKey: items[key].newKey)
                #expect(value == "value \(key)", "call \(calls)")
            }
        }
        #expect(calls > 300)
    }

    /// Stopped before whichever call of a storage, alone or in a batch, while another one migrates the items, and they are removed.
    @Test(arguments: [1, 3]) func whoWasStoppedBringsNothingBack(_ count: Int) throws {
        let migration = Migration("m", items: (0..<count).map { .string("k\($0)", to: "new\($0)") })
        var (number, removals, isHit) = (0, 0, true)
        while isHit {
            number += 1
            let (memory, isRemoved) = (InMemoryStorage(), Protected(false))
            let others = try SealedBackend(storage: memory).lockbox()
            for key in 0..<count {
                let value = try ArchivedValue(data: Data("v".utf8), format: .lockbox2)
                let item = try StoredItem(key: others.itemKey("k\(key)"), value: value, modified: date)
                try others.backend.write(item, policy: .replace)
            }
            let interruption = Interruption(at: number) {
                #expect(throws: Never.self) {
                    try others.migrate(migration)
                    try others.removeAllObjects()
                    isRemoved.withLock { $0 = true }
                }
            }
            let storage = InterruptedStorage(target: memory, interruption: interruption)
            let stopped = try SealedBackend(storage: storage).lockbox()
            _ = try stopped.allKeys()
            interruption.raise()
            let error = MigrationClaim.$patience.withValue(.zero) {
                lockboxError { try stopped.migrate(migration) }
            }
            #expect(error == nil || error?.code == .conflict, "before call \(number)")
            isHit = interruption.hasHappened
            guard isRemoved.withLock({ $0 }) else { continue }
            removals += 1
            #expect(try others.allKeys().isEmpty, "before call \(number)")
        }
        #expect(removals > 10)
    }

    @Test func runByManyAtOnceItHappensOnce() throws {
        try writeAll()
        let outcomes = Protected<[[MigrationReport.Outcome]]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            do {
                let lockbox = try store.backend(lockTimeout: .seconds(60)).lockbox()
                let report = try lockbox.migrate(all)
                outcomes.withLock { $0.append(report.outcomes.map(\.outcome)) }
            } catch { Issue.record(error) }
        }
        let done = outcomes.withLock { $0 }
        #expect(done.count == 8)
        #expect(done.count { $0.allSatisfy { $0 == .migrated } } == 1)
        #expect(done.count { $0.allSatisfy { $0 == .migratedBefore } } == 7)
        try expectAll()
    }

    /// All of them wait for the same instant.
    @Test(.timeLimit(.minutes(10))) func runByManyProcessesAtOnceItHappensOnce() throws {
        for _ in 0..<3 {
            let store = try TestStore()
            let lockbox = try store.lockbox()
            for number in 0..<50 { try write("value \(number)".utf8, "k\(number)", in: lockbox) }
            let processes = try (0..<8).map { _ in try TestProcess("migrate", store.directory) }
            processes.forEach { $0.endInput() }
            #expect(processes.map { $0.wait() }.sorted() == [0, 4, 4, 4, 4, 4, 4, 4])
            for number in 0..<50 {
                let value = try lockbox.unarchiveObject(String.self, forKey: "k\(number)")
                #expect(value == "value \(number)")
            }
            #expect(try store.leftovers() == [])
        }
    }

    /// The run that wrote it may have been killed before it was durable. Nothing is written, and so nothing else synchronizes it.
    @Test(arguments: [false, true]) func whatIsThereAlreadyIsSynchronized(_ isFailing: Bool) throws {
        try lockbox.archiveObject("1", forKey: "a")
        let migration = Migration(nil, from: .items(["a": Data("1".utf8)]), .string("a"), keepsOldItems: true)
        let before = try store.snapshot()
        let again = try store.backend(SystemCalls { isFailing && $0 == .fsync ? .failure(EIO) : nil })
            .lockbox()
        if isFailing {
            expectError(.outcomeUnknown) { try again.migrate(migration) }
        } else {
            #expect(try again.migrate(migration).outcomes.map(\.outcome) == [.alreadyMigrated])
        }
        #expect(try store.snapshot() == before)
    }

    /// The run that did it may have been killed before its record, or the new item, was durable.
    @Test func theAnswerOfANamedMigrationIsDurable() throws {
        let source = SealedBackend.inMemory()
        let items = Migration("items", from: .items(["a": Data("1".utf8)]), .string("a"), keepsOldItems: true)
        let gone = Migration("gone", from: .backend(source, keyPrefix: "old"), .string("b"))
        #expect(try lockbox.migrate(items)["a"] == .migrated)
        try lockbox.archiveObject("2", forKey: "b")
        #expect(try lockbox.migrate(items)["a"] == .migratedBefore)
        #expect(try lockbox.migrate(gone)["b"] == .alreadyMigrated)
        let failing = SystemCalls { $0 == .fsync ? .failure(EIO) : nil }
        for migration in [items, gone] {
            expectError(.outcomeUnknown) { try store.backend(failing).lockbox().migrate(migration) }
        }
    }

    // MARK: Changed meanwhile

    /// When other items have been migrated already: the new one that came, and the old one that was changed, stay.
    @Test func whatComesDuringTheRunStays() throws {
        try write("1".utf8, "a")
        try write("2".utf8, "b")
        let inPlace = Migration(nil, .string("a"), .string("b"))
        let changed = try lockbox.migrate(inPlace) { progress in
            if progress.completed == 1 {
                #expect(throws: Never.self) { try write("changed".utf8, "b") }
            }
        }
        #expect(changed.outcomes.map(\.outcome) == [.migrated, .refused(.changed)])
        #expect(try bytes("b")?.value.data == Data("changed".utf8))

        let source = MigrationSource.items(["a": Data("1".utf8), "b": Data("2".utf8)])
        let moved = Migration(nil, from: source, .string("a", to: "new a"), .string("b", to: "new b"))
        let taken = try lockbox.migrate(moved) { progress in
            if progress.completed == 1 {
                #expect(throws: Never.self) { try lockbox.archiveObject("came", forKey: "new b") }
            }
        }
        #expect(taken.outcomes.map(\.outcome) == [.migrated, .refused(.changed)])
        #expect(try lockbox.unarchiveObject(forKey: "new b") == "came")
    }

    /// Also if the item is written alone, after those that are written together.
    @Test func whatComesBeforeAnItemThatIsWrittenAloneStays() throws {
        let count = ItemOperation.batch + 1
        let old = Dictionary(uniqueKeysWithValues: (0..<count).map { ("\($0)", Data("old".utf8)) })
        let items: [Migration.Item] = (0..<count).map { .string("\($0)", to: "new \($0)") }
        let report = try lockbox.migrate(Migration(nil, from: .items(old), items: items)) { progress in
            if progress.completed == 1 {
                #expect(throws: Never.self) { try lockbox.archiveObject("came", forKey: "new \(count - 1)") }
            }
        }
        #expect(report.outcomes.last?.outcome == .refused(.destinationExists))
        #expect(report.outcomes.dropLast().allSatisfy { $0.outcome == .migrated })
        #expect(try lockbox.unarchiveObject(forKey: "new \(count - 1)") == "came")
    }

    /// Then the old item must not go.
    @Test func aBackendThatForgetsAWriteIsNoticed() throws {
        let isRemoved = Protected(false)
        let source = MigrationSource.items(["a": Data("1".utf8)]) { _ in isRemoved.withLock { $0 = true } }
        let lockbox = try HookedBackend(forgetsUpdates: true).lockbox()
        let report = try lockbox.migrate(Migration(nil, from: source, .string("a")))
        #expect(report.outcomes.map(\.outcome) == [.refused(.changed)])
        #expect(!isRemoved.withLock { $0 })
    }

    /// After it was written, and before it is read back: by another writer, and not by a backend that keeps another value.
    @Test(arguments: [false, true]) func whatIsChangedBeforeItIsReadBackIsRefused(_ isInPlace: Bool) throws {
        let isRemoved = Protected(false)
        try write("1".utf8, "a")
        let source = MigrationSource.items(["a": Data("1".utf8)]) { _ in isRemoved.withLock { $0 = true } }
        let store = lockbox
        let theirs = try StoredItem(
            key: store.itemKey(isInPlace ? "a" : "new"),
            value: ArchivedValue(data: Data("theirs".utf8), format: .data),
            modified: date
        )
        let others: @Sendable () -> Void = {
            #expect(throws: Never.self) { try store.backend.write(theirs, policy: .replace) }
        }
        let watched = try HookedBackend(wrapped: store.backend, afterUpdating: others, afterWriting: others)
            .lockbox()
        let report = try watched.migrate(
            isInPlace ? Migration(nil, .string("a")) : Migration(nil, from: source, .string("a", to: "new"))
        )
        #expect(report.outcomes.map(\.outcome) == [.refused(.changed)])
        #expect(try bytes(theirs.key.key)?.value == theirs.value)
        #expect(!isRemoved.withLock { $0 })
    }

    /// It is found at the old key after nothing was found at the new one, which is the same.
    @Test func whatOthersWriteBetweenTwoLooksStays() throws {
        let (store, looks) = (lockbox, Protected(0))
        let watched = try HookedBackend(
            wrapped: store.backend,
            beforeReading: { key in
                let look = looks.withLock { looks in
                    looks += 1
                    return looks
                }
                guard key.key == "k", look == 2 else { return }
                #expect(throws: Never.self) { try store.archiveObject("theirs", forKey: "k") }
            }
        ).lockbox()
        let report = try watched.migrate(Migration(nil, .string("k")))
        #expect(report.outcomes.map(\.outcome) == [.alreadyMigrated])
        #expect(try store.unarchiveObject(forKey: "k") == "theirs")
    }

    /// An item in its own place that came between two looks, and then went.
    @Test func whatOthersRemoveAfterTwoLooksStaysRemoved() throws {
        let (store, looks) = (lockbox, Protected(0))
        let key = try store.itemKey("k")
        let old = try StoredItem(
            key: key,
            value: ArchivedValue(data: Data("theirs".utf8), format: .lockbox2),
            modified: date
        )
        let watched = try HookedBackend(
            wrapped: store.backend,
            beforeReading: { read in
                let look = looks.withLock { looks in
                    if read == key { looks += 1 }
                    return looks
                }
                #expect(throws: Never.self) {
                    if look == 2 { try store.backend.write(old, policy: .replace) }
                    if look == 3 { try store.backend.remove(key) }
                }
            },
            beforeUpdating: { #expect(throws: Never.self) { try store.backend.remove(key) } }
        ).lockbox()
        let report = try watched.migrate(Migration(nil, .string("k")))
        #expect(report.outcomes.map(\.outcome) == [.refused(.changed)])
        #expect(try !store.containsObject(forKey: "k"))
    }

    @Test func whatOthersChangeMeanwhileStays() throws {
        try write("old".utf8, "k")
        let items = BackendItems(
            backend: lockbox.backend,
            destination: lockbox,
            keyPrefix: TestStore.prefix,
            now: date
        )
        let item = try #require(try items.item(forKey: "k"))
        try write("newer".utf8, "k")
        #expect(try items.remove(["k": item]) == ["k"])
        #expect(try bytes("k")?.value.data == Data("newer".utf8))
    }
}
