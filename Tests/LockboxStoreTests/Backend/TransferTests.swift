import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore
@testable import LockboxTesting

@Suite struct TransferTests {
    private let old: TestStore
    private let new: TestStore
    private let source: EncryptedFileBackend
    private let destination: EncryptedFileBackend
    private let date = Date(timeIntervalSinceReferenceDate: 801_234_567.890625)

    init() throws {
        (old, new) = (try TestStore(), try TestStore())
        (source, destination) = (old.backend(), new.backend())
    }

    private func item(
        _ key: String,
        _ text: String = "value",
        prefix: String = "com.example.a",
        _ accessibility: Accessibility = .whenUnlocked,
        expires: Date? = nil
    ) throws -> StoredItem {
        try StoredItem(
            key: ItemKey(prefix: prefix, key: key),
            value: ArchivedValue(data: Data(text.utf8), format: ValueFormat(rawValue: 200)),
            accessibility: accessibility,
            created: date - 100,
            modified: date,
            expires: expires,
            label: "label",
            comment: "comment"
        )
    }

    private func fill() throws -> Set<StoredItem> {
        var items = [
            try item("expired", expires: date - 1), try item("k", prefix: "com.example.b"),
            try item("legacy", "a-|-b", prefix: "com.example.b"), try item("empty", ""),
        ]
        for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
            items.append(try item(accessibility.rawValue, accessibility.rawValue, accessibility))
        }
        for item in items { try source.write(item, policy: .replace) }
        return Set(items)
    }

    @Test func copiesEverything() throws {
        let items = try fill()
        var progress: [StoreProgress] = []
        let report = try source.copyItems(to: destination) { progress.append($0) }
        #expect(Set(report.transferredKeys) == Set(items.map(\.key)))
        #expect(report.isComplete && report.transferredKeys.count == items.count)
        #expect(progress.last == StoreProgress(completed: items.count, total: items.count))
        #expect(try destination.allItems() == items)
        #expect(try source.allItems() == items)

        let before = try new.snapshot()
        #expect(try source.copyItems(to: destination).isComplete)
        #expect(try new.snapshot() == before, "what is there already is not written again")
    }

    @Test func movesEverythingOrAPrefix() throws {
        let items = try fill()
        let moved = try source.moveItems(to: destination, prefix: "com.example.b")
        #expect(moved.transferredKeys.count == 2)
        #expect(try destination.allItems() == items.filter { $0.key.prefix == "com.example.b" })
        #expect(try source.allItems() == items.filter { $0.key.prefix == "com.example.a" })
        #expect(try source.moveItems(to: destination).isComplete)
        #expect(try destination.allItems() == items)
        #expect(try source.allItems().isEmpty)
        #expect(try source.moveItems(to: destination).transferredKeys.isEmpty)
    }

    @Test func betweenKindsOfBackends() throws {
        let items = try fill()
        let memory = InMemoryBackend()
        #expect(try source.moveItems(to: memory).isComplete)
        #expect(try memory.moveItems(to: destination).isComplete)
        #expect(try destination.allItems() == items)
        #expect(memory.prefixes().isEmpty)
    }

    @Test func existingItemsFollowThePolicy() throws {
        try source.write(item("same"), policy: .replace)
        try source.write(item("other", "theirs"), policy: .replace)
        try destination.write(item("same"), policy: .replace)
        try destination.write(item("other", "ours"), policy: .replace)
        let key = try item("other").key

        expectError(.duplicateItem) { try source.moveItems(to: destination, existing: .fail) }
        #expect(try source.allItems().count == 2)
        let report = try source.moveItems(to: destination, existing: .keep)
        #expect(report.keptKeys == [key] && report.transferredKeys.map(\.key) == ["same"])
        #expect(report.isComplete, "as the policy says")
        #expect(try source.allItems() == [item("other", "theirs")])
        #expect(try destination.allItems() == [item("same"), item("other", "ours")])
        #expect(try source.moveItems(to: destination, existing: .replace).isComplete)
        #expect(try source.allItems().isEmpty)
        #expect(try destination.allItems() == [item("same"), item("other", "theirs")])
    }

    /// Found by the history checker: the copy reported as kept what it had written.
    @Test func anUpdateThatRunsAgainDecidesAgain() throws {
        let items = try fill()
        let report = try source.copyItems(to: ContendedBackend(wrapped: destination), existing: .keep)
        #expect(report.keptKeys.isEmpty)
        #expect(Set(report.transferredKeys) == Set(items.map(\.key)))
        #expect(try destination.allItems() == items)
    }

    /// Promise 2: what cannot be made durable in the destination stays in the source.
    @Test func nothingIsRemovedAfterAFailedSynchronization() throws {
        let items = try fill()
        for number in 1...60 {
            let other = try TestStore()
            try other.lockbox(TestStore.prefix).archiveObject("v", forKey: "k")
            let armed = Protected<Int?>(nil)
            let target = other.backend(
                SystemCalls { call in
                    guard call == .fsync else { return nil }
                    return armed.withLock { left in
                        // From then on every one fails.
                        guard let now = left else { return nil }
                        left = max(0, now - 1)
                        return now <= 1 ? .failure(EIO) : nil
                    }
                }
            )
            let source = InMemoryBackend()
            for item in items { try source.write(item, policy: .replace) }
            _ = try target.lockState
            armed.withLock { $0 = number }
            let report = try? source.moveItems(to: target)
            let isFailing = armed.withLock { $0 } == 0
            let left = try source.allItems()
            // The failed synchronization and all later ones concern what is still in the source.
            #expect(report.map { $0.transferredKeys.count + left.count == items.count } ?? (left == items))
            if !isFailing { break }
            #expect(!left.isEmpty, "fsync \(number)")
        }
    }

    /// Promise 2, of a copy: from some synchronization on, every one fails. The first ones are the batch's.
    @Test func whatIsNotDurableIsNotReportedAsCopied() throws {
        let items = try fill()
        var failures = 0
        for number in 1...60 {
            let other = try TestStore()
            try other.lockbox(TestStore.prefix).archiveObject("v", forKey: "k")
            let (left, failed) = (Protected<Int?>(nil), Protected(0))
            let target = other.backend(
                SystemCalls { call in
                    guard call == .fsync, let now = left.withLock({ $0 }) else { return nil }
                    left.withLock { $0 = max(0, now - 1) }
                    if now > 1 { return nil }
                    failed.withLock { $0 += 1 }
                    return .failure(EIO)
                }
            )
            _ = try target.lockState
            left.withLock { $0 = number }
            let report = try source.copyItems(to: target)
            #expect(report.transferredKeys.count + report.failures.count == items.count)
            if failed.withLock({ $0 }) == 0 { break }
            failures += 1
            #expect(!report.isComplete, "fsync \(number)")
        }
        #expect(failures > 5 && failures < 60)
    }

    /// An error does not say which of them are durable, and not every backend can synchronize what is there.
    @Test func whatARefusedBatchLeftIsWrittenAgain() throws {
        let items = try fill()
        let updates = Protected(0)
        let hooked = HookedBackend(afterUpdating: { updates.withLock { $0 += 1 } }, refusesBatches: true)
        let report = try source.copyItems(to: hooked)
        #expect(report.isComplete && report.transferredKeys.count == items.count)
        #expect(updates.withLock { $0 } == items.count)
    }

    /// The process that wrote it may have been killed before its own synchronization. One for each prefix is enough.
    @Test(arguments: [true, false]) func anEqualItemIsSynchronized(_ isFailing: Bool) throws {
        let items = try fill()
        #expect(try source.copyItems(to: destination).isComplete)
        let (before, count) = (try new.snapshot(), Protected(0))
        let again = new.backend(
            SystemCalls { call in
                guard call == .fsync else { return nil }
                count.withLock { $0 += 1 }
                return isFailing ? .failure(EIO) : nil
            }
        )
        let report = try source.copyItems(to: again)
        #expect(
            Set(isFailing ? Array(report.failures.keys) : report.transferredKeys) == Set(items.map(\.key))
        )
        #expect(report.isComplete == !isFailing)
        #expect(count.withLock { $0 } == 2, "two prefixes")
        #expect(try new.snapshot() == before)
    }

    /// By the date of the new item, an expired one in its place had not expired.
    @Test func aBatchReplacesNothing() throws {
        let old = try item("a", "old", expires: Date() + 3600)
        let ahead = try StoredItem(key: old.key, value: item("a", "new").value, modified: Date() + 7200)
        for one in [ahead, try item("b")] { try source.write(one, policy: .replace) }
        try destination.write(old, policy: .replace)
        let report = try source.copyItems(to: destination, existing: .keep)
        #expect(report.keptKeys == [old.key])
        #expect(try destination.item(for: old.key, now: nil) == old)
    }

    /// Found by the history checker: an item that was written in a batch, and changed or removed in the source before
    /// it was looked at again, was reported as kept, or not at all.
    @Test func whatChangesDuringABatchIsReportedAsItWasRead() throws {
        let items = try fill()
        let keys = items.map(\.key).sorted { ($0.prefix, $0.key) < ($1.prefix, $1.key) }
        let report = try source.copyItems(to: destination) { progress in
            guard progress.completed == 1 else { return }
            #expect(throws: Never.self) {
                try source.remove(keys[1])
                try source.write(item(keys[2].key, "later"), policy: .replace)
            }
        }
        #expect(report.isComplete && Set(report.transferredKeys) == Set(keys))
        #expect(
            try destination.allItems()
                == Set(items.map { $0.key == keys[2] ? try item(keys[2].key, "later") : $0 })
        )
    }

    /// One that is slow has read the old value, which it must not leave over the newer one.
    @Test func ofTwoCopiesAtOnceTheNewestValueStays() throws {
        let (old, new) = (try item("k", "old"), try item("k", "new"))
        try source.write(old, policy: .replace)
        let (source, destination, isDone) = (source, destination, Protected(false))
        let hooked = HookedBackend(
            wrapped: destination,
            beforeUpdating: {
                guard isDone.raise() else { return }
                #expect(throws: Never.self) {
                    try source.write(new, policy: .replace)
                    try source.copyItems(to: destination, existing: .replace)
                }
            }
        )
        #expect(try source.copyItems(to: hooked, existing: .replace).transferredKeys == [old.key])
        #expect(try destination.allItems() == [new])
    }

    @Test func whatIsNotCopiedIsNotRemoved() throws {
        try source.setUp()
        try source.write(item("locked"), policy: .replace)
        try source.write(item("open", "value", .always), policy: .replace)
        try source.write(item("damaged", "value", .always), policy: .replace)
        try source.write(item("passcode", "value", .whenPasscodeSetThisDeviceOnly), policy: .replace)
        try old.damage("damaged", prefix: "com.example.a")

        let unlocked = try source.moveItems(to: destination)
        #expect(unlocked.transferredKeys.map(\.key).sorted() == ["locked", "open"])
        #expect((unlocked.failures[try item("damaged").key] as? LockboxError)?.code == .authenticationFailed)
        #expect((unlocked.failures[try item("passcode").key] as? LockboxError)?.code == .passcodeNotSet)
        #expect(try source.attributes(prefix: "com.example.a", now: date).count == 2)

        try source.write(item("locked"), policy: .replace)
        try source.lock()
        let locked = try source.moveItems(to: InMemoryBackend())
        #expect((locked.failures[try item("locked").key] as? LockboxError)?.code == .interactionNotAllowed)
        #expect(try source.attributes(prefix: "com.example.a", now: date).count == 3)
    }

    /// Under another path too, it is the same store.
    @Test func aStoreIsNotMovedIntoItself() throws {
        let items = try fill()
        let link = "\(old.directory)-link"
        let parent = Path.parent(of: old.directory)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: parent)
        for same in [source, old.backend(), EncryptedFileBackend(directory: "\(link)/store")] {
            expectError(.invalidKey) { try source.moveItems(to: same) }
        }
        #expect(try source.allItems() == items)
        let memory = InMemoryBackend()
        try memory.write(item("k"), policy: .replace)
        expectError(.invalidKey) { try memory.moveItems(to: memory) }
        #expect(try memory.allItems().count == 1)
        #expect(try source.verify().findings.isEmpty)
    }

    /// Neither of two processes that look at once takes the other's probe for a sign of another store.
    @Test func aStoreIsNotMovedIntoItselfByTwo() throws {
        try source.write(item("k"), policy: .replace)
        let (old, source, isNested) = (old, source, Protected(false))
        let first = HookedBackend(
            wrapped: source,
            beforeReading: { _ in
                guard isNested.raise() else { return }
                expectError(.invalidKey) { try source.moveItems(to: old.backend()) }
            }
        )
        expectError(.invalidKey) { try first.moveItems(to: old.backend()) }
        #expect(try source.allItems() == [item("k")])
    }

    /// A killed move leaves its probe, which expires, and which a later move removes.
    @Test func whatAKilledMoveLeavesDoesNotStay() throws {
        try source.write(item("k"), policy: .replace)
        let key = try ItemKey(storedPrefix: "\0transfer", key: "left by a killed move")
        let value = try ArchivedValue(data: Data(), format: .data)
        let probe = try StoredItem(key: key, value: value, modified: date, expires: date)
        try destination.write(probe, policy: .replace)
        #expect(try source.moveItems(to: destination).isComplete)
        #expect(try destination.item(for: key, now: nil) == nil)

        let left = Protected<[ItemAttributes]>([])
        let watching = HookedBackend(
            wrapped: source,
            beforeReading: { [destination] key in
                guard ItemKey.isReserved(prefix: key.prefix) else { return }
                let now: Date? = nil
                let probes = try? destination.attributes(prefix: "\0transfer", now: now)
                left.withLock { $0 += probes?.values.map(\.self) ?? [] }
            }
        )
        #expect(try watching.moveItems(to: destination).isComplete)
        #expect(left.withLock { $0.count == 1 && $0.allSatisfy { $0.expires != nil } })
    }

    /// An expired item is absent, like everywhere.
    @Test func whatIsExpiredThereIsNotKept() throws {
        let long = Date(timeIntervalSinceReferenceDate: 0)
        for policy in [ExistingItemPolicy.keep, .fail] {
            try source.write(item("k", "live"), policy: .replace)
            try destination.write(item("k", "expired", expires: long), policy: .replace)
            let report = try source.moveItems(to: destination, existing: policy)
            #expect(report.isComplete && report.transferredKeys.count == 1)
            #expect(try destination.allItems() == [item("k", "live")])
            #expect(try source.allItems().isEmpty)
            try destination.removeAll(prefix: item("k").key.prefix)
        }
    }

    /// The destination says that it has written, and has not.
    @Test func whatDoesNotReadBackIsNotRemoved() throws {
        try source.write(item("k"), policy: .replace)
        let report = try source.moveItems(to: HookedBackend(forgetsUpdates: true))
        #expect((report.failures[try item("k").key] as? LockboxError)?.code == .conflict)
        #expect(try source.allItems() == [item("k")])
    }

    /// From the N-th system call on, of either store, nothing works any more, as for a process that is killed there.
    @Test(arguments: [true, false]) func interruptedAtEverySystemCall(_ isSource: Bool) throws {
        let items = Set(try (0..<3).map { try item("k\($0)", "value \($0)") })
        for item in items { try source.write(item, policy: .replace) }
        var calls = Interruption.start
        var isDone = false
        while !isDone {
            calls += Interruption.stride
            let (old, new) = (try TestStore(copying: self.old), try TestStore())
            let dying = SystemCalls.failing(from: calls)
            let report = try? old.backend(isSource ? dying : SystemCalls())
                .moveItems(to: new.backend(isSource ? SystemCalls() : dying))
            isDone = report?.isComplete ?? false

            #expect(try old.backend().allItems().union(new.backend().allItems()) == items, "call \(calls)")
            #expect(try old.backend().moveItems(to: new.backend()).isComplete, "call \(calls)")
            #expect(try new.backend().allItems() == items, "call \(calls)")
            #expect(try old.backend().allItems().isEmpty, "call \(calls)")
        }
        #expect(calls > 30)
    }

    @Test func whatIsChangedMeanwhileStays() throws {
        try source.write(item("k"), policy: .replace)
        let newer = try item("k", "newer")
        let report = try source.moveItems(
            to: HookedBackend(afterUpdating: { try! source.write(newer, policy: .replace) })
        )
        #expect((report.failures[newer.key] as? LockboxError)?.code == .conflict)
        #expect(try source.allItems().map(\.value) == [newer.value])
    }

    /// By another writer, who also may remove it.
    @Test(arguments: [true, false]) func whatIsChangedThereMeanwhileIsAConflict(_ isRemoved: Bool) throws {
        let key = try item("k").key
        try source.write(item("k"), policy: .replace)
        let theirs = try item("k", "theirs")
        let other = destination
        let report = try source.moveItems(
            to: HookedBackend(
                wrapped: destination,
                afterUpdating: {
                    #expect(throws: Never.self) {
                        if isRemoved {
                            try other.remove(key)
                        } else {
                            try other.write(theirs, policy: .replace)
                        }
                    }
                }
            ),
            existing: .replace
        )
        #expect((report.failures[key] as? LockboxError)?.code == .conflict)
        #expect(try source.allItems() == [item("k")], "what was not moved stays")
        #expect(try destination.allItems() == (isRemoved ? [] : [theirs]), "their change is kept")
        #expect(try destination.attributes(prefix: ItemKey.probePrefix, now: nil).isEmpty)
    }
}
