import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Many writes and removals in one call.
@Suite struct BatchTests {
    private let store: TestStore
    private let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
        for key in ["a", "b", "c"] {
            try lockbox.archiveObject("old", forKey: key, options: WriteOptions(label: "L"))
        }
    }

    @Test func writesAndRemoves() throws {
        try lockbox.batch { batch in
            try batch.archiveObject("new", forKey: "a")
            try batch.removeObject(forKey: "b")
            try batch.archiveObject(String?.none, forKey: "c")
            try batch.archiveObject(1, forKey: "d", options: WriteOptions(label: "of d", policy: .addOnly))
        }
        let reopened = try store.lockbox()
        #expect(try reopened.allKeys() == ["a", "d"])
        #expect(try reopened.unarchiveObject(forKey: "a") == "new")
        #expect(try reopened.attributes(forKey: "a")?.label == "L")
        #expect(try store.leftovers().isEmpty)
    }

    @Test func whatIsRefusedChangesNothing() throws {
        let before = try store.snapshot()
        expectError(.duplicateItem) {
            try lockbox.batch { batch in
                try batch.archiveObject("new", forKey: "a")
                try batch.removeObject(forKey: "b")
                try batch.archiveObject("new", forKey: "c", options: WriteOptions(policy: .addOnly))
            }
        }
        expectError(.invalidKey) {
            try lockbox.batch { batch in
                try batch.archiveObject("new", forKey: "a")
                try batch.removeObject(forKey: "a")
            }
        }
        struct Refusal: Error {}
        #expect(throws: Refusal.self) {
            try lockbox.batch { batch in
                try batch.removeObject(forKey: "a")
                throw Refusal()
            }
        }
        #expect(try store.snapshot() == before)
    }

    /// More than the storage takes at once, and more bytes than are held in memory at once.
    @Test func aBatchOfAnySize() throws {
        let large = Data(repeating: 7, count: 1 << 20)
        try lockbox.batch { batch in
            for number in 0..<2500 { try batch.archiveObject(number, forKey: "number \(number)") }
            for number in 0..<10 { try batch.archiveObject(large, forKey: "large \(number)") }
        }
        let reopened = try store.lockbox()
        #expect(try reopened.list().items.count == 2513)
        #expect(try reopened.unarchiveObject(forKey: "number 2499") == 2499)
        #expect(try reopened.unarchiveObject(forKey: "large 9") == large)
    }

    @Test func withoutAStore() throws {
        let store = try TestStore()
        try store.lockbox().batch { try $0.removeObject(forKey: "a") }
        expectError(.itemNotFound) {
            try store.lockbox().batch {
                try $0.archiveObject("v", forKey: "a", options: WriteOptions(policy: .updateOnly))
            }
        }
        #expect(!FileManager.default.fileExists(atPath: store.directory))
        try store.lockbox().batch { try $0.archiveObject("v", forKey: "a") }
        #expect(try store.lockbox().allKeys() == ["a"])
    }

    /// From the N-th system call on nothing works any more: each item is old or new, and nothing is left over.
    @Test func interruptedAtEverySystemCall() throws {
        var (calls, isDone) = (0, false)
        while !isDone {
            calls += 1
            let store = try TestStore(copying: store)
            let dying = try store.backend(.failing(from: calls)).lockbox()
            isDone = (try? change(dying)) != nil
            let lockbox = try store.lockbox()
            let values = try lockbox.unarchiveObjects(String.self, forKeys: ["a", "b", "c", "d"])
            #expect(
                [nil, "new"].contains(values["d"]) && [nil, "old"].contains(values["c"]),
                "call \(calls)"
            )
            for key in ["a", "b"] { #expect(["old", "new"].contains(values[key]), "call \(calls)") }
            for name in try store.leftovers() { try store.leaveBehind(name) }
            try change(lockbox)
            #expect(
                try lockbox.unarchiveObjects(forKeys: ["a", "b", "c", "d"]) == [
                    "a": "new", "b": "new", "d": "new",
                ]
            )
            #expect(try store.leftovers().isEmpty, "call \(calls)")
        }
        #expect(calls > 20)
    }

    private func change(_ lockbox: Lockbox) throws {
        try lockbox.batch { batch in
            for key in ["a", "b", "d"] { try batch.archiveObject("new", forKey: key) }
            try batch.removeObject(forKey: "c")
        }
    }

    /// Every file is written before the first is synchronized, and the folder is synchronized once.
    @Test func synchronizationIsShared() throws {
        let calls = Protected<[SystemCalls.Call]>([])
        let lockbox = try store.backend(
            SystemCalls { call in
                calls.withLock { $0.append(call) }; return nil
            }
        ).lockbox()
        _ = try lockbox.allKeys()
        calls.withLock { $0 = [] }
        try lockbox.batch { batch in
            for number in 0..<20 { try batch.archiveObject(number, forKey: "\(number)") }
        }
        let made = calls.withLock { $0.filter { [.write, .fsync, .rename].contains($0) } }
        let writes = made.firstIndex(of: .fsync)!
        #expect(writes >= 20 && made.count { $0 == .fsync } == 21, "\(made)")
    }

    /// Another writer changes one of the items whenever the batch takes the lock.
    @Test func aBatchLosesNoOther() throws {
        let store = store
        let interruptions = Protected(0)
        let racing = try store.backend(
            .before(.flock) {
                interruptions.withLock { $0 += 1 }
                _ = try? store.lockbox().update("a", as: String.self) { $0? += "+" }
                return interruptions.withLock { $0 } == 3
            }
        ).lockbox()
        try racing.backend.apply([
            .write(
                ItemChanges(options: WriteOptions(label: "changed"), modified: Date()),
                to: ItemKey(prefix: TestStore.prefix, key: "a")
            ),
            .remove(ItemKey(prefix: TestStore.prefix, key: "b")),
        ])
        let item = try #require(try lockbox.unarchiveItem(String.self, forKey: "a"))
        #expect(item.attributes.label == "changed" && item.value.hasPrefix("old+"))
        #expect(try !lockbox.containsObject(forKey: "b"))
    }
}
