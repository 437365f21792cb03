import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A commit to files of which a part fails, or beside which others commit.
@Suite(.timeLimit(.minutes(10))) struct CommitTests {
    private let store: TestStore
    private let one = RecordName(namespace: "a", name: "one")
    private let two = RecordName(namespace: "b", name: "two")

    init() throws {
        store = try TestStore()
        // A store is known by its keybag.
        try commit([.put(RecordName(name: "keybag"), [1]), .put(one, [1]), .put(two, [1])])
    }

    private func storage(_ calls: SystemCalls = SystemCalls(), lockTimeout: Duration = .milliseconds(200))
        -> FileStorage
    {
        store.storage(calls, lockTimeout: lockTimeout)
    }

    private func commit(_ changes: [RecordChange], on storage: FileStorage? = nil) throws {
        let outcome = try (storage ?? self.storage()).commit(changes, expecting: [:])
        guard case .committed = outcome else { throw CocoaError(.fileWriteUnknown) }
    }

    private func bytes(_ record: RecordName) throws -> [UInt8]? {
        try storage().read([record], maximum: 100)[record]?.bytes
    }

    // MARK: Failures

    /// Fails the synchronizations of that number that follow a rename or a removal.
    private func losing(_ number: Int, _ hits: Protected<Int>) -> SystemCalls {
        let state = Protected((isChanged: false, count: 0))
        return SystemCalls { call in
            state.withLock { state in
                // Not that of a file that has only been written: then nothing is changed.
                if [.rename, .unlink, .open].contains(call) { state.isChanged = call != .open }
                guard call == .fsync, state.isChanged else { return nil }
                state.count += 1
                guard state.count == number else { return nil }
                hits.withLock { $0 += 1 }
                return .failure(EIO)
            }
        }
    }

    /// A move must not lose its item in a power cut.
    @Test func whatIsNewIsDurableBeforeAnythingIsRemoved() throws {
        let calls = Protected<[SystemCalls.Call]>([])
        let storage = storage(
            SystemCalls { call in
                calls.withLock { $0.append(call) }
                return nil
            }
        )
        try commit([.remove(one), .put(two, [2])], on: storage)
        let seen = calls.withLock { $0 }
        let (renamed, removed) = (
            try #require(seen.lastIndex(of: .rename)), try #require(seen.lastIndex(of: .unlink))
        )
        #expect(renamed < removed && seen[renamed...removed].count { $0 == .fsync } == 2)
        #expect(try bytes(one) == nil && bytes(two) == [2])
    }

    /// Of any of the folders.
    @Test(arguments: [1, 2]) func whatIsNotSynchronizedIsNotSaidToBeCommitted(_ folder: Int) throws {
        for changes in [[RecordChange.put(one, [2]), .put(two, [2])], [.remove(one), .remove(two)]] {
            let storage = storage(losing(folder, Protected(0)))
            let outcome = try storage.commit(changes, expecting: [:])
            guard case .unknown(.outcomeUnknown(_, _, wasMade: true)) = outcome else {
                Issue.record("\(outcome)")
                continue
            }
        }
    }

    enum Operation: CaseIterable { case make, write, update, remove, removeAll, removeExpired, setPasscode }

    @Test("Promise 2: a change that a power cut may undo has not succeeded", arguments: Operation.allCases)
    func whatIsNotSynchronizedThrows(_ operation: Operation) throws {
        var number = 0
        var isHit = true
        var unnoticed: [Int] = []
        while isHit {
            number += 1
            let (store, hits) = (try TestStore(), Protected(0))
            if operation != .make {
                try store.lockbox().archiveObject(
                    "old",
                    forKey: "k",
                    options: WriteOptions(expires: .at(.distantFuture))
                )
            }
            let backend = store.backend(losing(number, hits))
            let lockbox = try backend.lockbox()
            let error = lockboxError {
                switch operation {
                case .make, .write: try lockbox.archiveObject("new", forKey: "k")
                case .update: try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "k")
                case .remove: try lockbox.removeObject(forKey: "k")
                case .removeAll: try lockbox.removeAllObjects()
                case .removeExpired:
                    try backend.removeExpired(prefix: TestStore.prefix, now: .distantFuture)
                case .setPasscode:
                    // The report has everything after the passcode was set.
                    let report = try backend.setPasscode(.value("1"), strength: .interactive)
                    if let item = report.unreadableItems.first { throw item.error }
                }
            }
            isHit = hits.withLock { $0 } > 0
            #expect(error == nil || error?.code == .outcomeUnknown && isHit, "synchronization \(number)")
            if isHit, error == nil { unnoticed.append(number) }
        }
        // If a manifest that no keybag names is back, the next change removes it, and makes the copies of keybag and device key that are
        // not there: two after each change.
        let harmless = operation == .setPasscode ? 1 + 3 * 2 : operation == .make ? 2 : 0
        #expect(unnoticed.count == harmless, "\(unnoticed)")
        #expect(number > (operation == .make ? 3 : 1))
    }

    @Test(arguments: [SystemCalls.Call.write, .fsync, .rename])
    func aCommitThatFailsHalfWay(_ failing: SystemCalls.Call) throws {
        let trace = Protected<[SystemCalls.Call]>([])
        let storage = storage(
            SystemCalls { call in
                trace.withLock { trace in
                    trace.append(call)
                    return call == failing && trace.count { $0 == failing } == 2 ? .failure(EIO) : nil
                }
            }
        )
        expectError(.storageFailure) { try commit([.put(one, [2]), .put(two, [2])], on: storage) }
        #expect(try store.leftovers() == [])
        // In their order; and nothing at all before the last of the files is written.
        #expect(try bytes(one) == [failing == .rename ? 2 : 1])
        #expect(try bytes(two) == [1])
        let afterwards = trace.withLock { $0.suffix(from: $0.lastIndex(of: failing)! + 1) }
        #expect(failing != .rename || afterwards.contains(.fsync), "what was changed stays so")
        try commit([.put(one, [3]), .put(two, [3])], on: storage)
        #expect(try bytes(one) == [3] && bytes(two) == [3])
    }

    // MARK: Locks

    /// Else two commits could each wait for the other's.
    @Test func locksOfSeveralNamespacesAreTakenInOneOrder() throws {
        let waiting = storage(lockTimeout: .seconds(60))
        let group = DispatchGroup()
        try storage().holdingLock(of: "b") {
            Thread.detachNewThread(in: group) { [one, two] in
                #expect(throws: Never.self) { try commit([.put(two, [2]), .put(one, [2])], on: waiting) }
            }
            let other = storage(lockTimeout: .milliseconds(10))
            let end = ContinuousClock.now + .seconds(10)
            var isTaken = false
            while !isTaken, ContinuousClock.now < end {
                isTaken = lockboxError { try other.holdingLock(of: "a") {} }?.code == .lockTimeout
            }
            #expect(isTaken, "it waits for the second before it has the first")
        }
        group.wait()
        #expect(try bytes(one) == [2] && bytes(two) == [2])
    }

    /// Another writer comes first once, and not again.
    @Test func whoLostOnceIsNotOvertakenAgain() throws {
        let store = try TestStore()
        try store.lockbox().archiveObject("old", forKey: "k")
        let other = try store.backend(lockTimeout: .milliseconds(20)).lockbox()
        let (lockbox, key) = (try store.lockbox(), try ItemKey(prefix: TestStore.prefix, key: "k"))
        var errors: [LockboxError?] = []
        try lockbox.backend.update(key, now: Date()) { _ in
            // Not for ever, if each of them comes first.
            if errors.count < 3 {
                errors.append(lockboxError { try other.archiveObject("other", forKey: "k") })
            }
            return try StoredItem(
                key: key,
                value: #require(try lockbox.archive("own \(errors.count)", "k")),
                modified: Date()
            )
        }
        #expect(errors.count == 2 && errors.first == .some(nil))
        #expect(errors.last??.code == .lockTimeout)
        #expect(try store.lockbox().unarchiveObject(forKey: "k") == "own 2")
        try other.archiveObject("other", forKey: "k")
    }

    @Test func aRemovalThatLostOnceIsNotOvertakenAgain() throws {
        let store = try TestStore()
        for key in ["a", "b"] {
            try store.lockbox().archiveObject(
                "v",
                forKey: key,
                options: WriteOptions(expires: .at(.distantPast))
            )
        }
        let other = try store.lockbox()
        let count = Protected(0)
        let removing = try store.backend(
            SystemCalls { call in
                guard call == .flock else { return nil }
                let number = count.next()
                if number == 1 { #expect(throws: Never.self) { try other.archiveObject("new", forKey: "a") } }
                return nil
            }
        ).lockbox()
        #expect(try removing.removeExpired() == 1)
        // Its second attempt holds the lock.
        #expect(count.withLock { $0 } == 2)
        #expect(try store.lockbox().unarchiveObject(forKey: "a") == "new")
    }

    /// A lock that was taken before the store was moved is of a folder that nobody else looks at. What was read under it may have
    /// changed.
    @Test func aLockIsOfTheStoreThatIsThereNow() throws {
        let storage = storage(lockTimeout: .milliseconds(50))
        let lock = try storage.lock(["a"])
        defer { lock.release() }
        try store.copyInPlace()
        let revision = try storage.revision(of: one, maximum: 100)
        func change() throws -> CommitOutcome {
            try storage.commit([.put(one, [2])], expecting: [one: revision])
        }
        guard case .conflict = try lock.commit([.put(one, [2])], expecting: [one: revision]) else {
            Issue.record("no conflict")
            return
        }
        try self.storage().holdingLock(of: "a") { #expect(lockboxError(change)?.code == .lockTimeout) }
        #expect(try bytes(one) == [1])
        guard case .committed = try change() else {
            Issue.record("a conflict")
            return
        }
        #expect(try bytes(one) == [2])
    }

    /// It covers nothing of what is to be changed.
    @Test func aLockOfAnotherNamespaceIsNone() throws {
        let storage = storage(lockTimeout: .milliseconds(50))
        let lock = try storage.lock(["b"])
        defer { lock.release() }
        for change in [RecordChange.put(one, [2]), .remove(one)] {
            guard case .conflict = try lock.commit([change], expecting: [:]) else {
                Issue.record("no conflict")
                return
            }
        }
        #expect(try bytes(one) == [1])
    }
}
