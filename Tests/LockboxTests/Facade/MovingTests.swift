import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Copies and moves between keys, and the check that a store can be used.
@Suite struct MovingTests {
    private let store: TestStore
    private let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
        try lockbox.archiveObject(
            "v",
            forKey: "old",
            options: WriteOptions(
                accessibility: .always,
                expires: .at(.distantFuture),
                label: "L",
                attributes: ["a": "b"]
            )
        )
    }

    @Test(arguments: [nil, "com.example.other"]) func movesWithEverything(_ prefix: String?) throws {
        let attributes = try lockbox.attributes(forKey: "old")
        try lockbox.copyObject(forKey: "old", toKey: "copy", toPrefix: prefix)
        try lockbox.moveObject(forKey: "old", toKey: "new", toPrefix: prefix)
        let destination = try store.lockbox(prefix ?? TestStore.prefix)
        for key in ["copy", "new"] {
            #expect(try destination.unarchiveObject(forKey: key) == "v")
            #expect(try destination.attributes(forKey: key) == attributes)
        }
        #expect(try !lockbox.containsObject(forKey: "old"))
        expectError(.itemNotFound) { try lockbox.moveObject(forKey: "old", toKey: "new") }
    }

    @Test func policies() throws {
        try lockbox.archiveObject("other", forKey: "taken")
        expectError(.duplicateItem) { try lockbox.moveObject(forKey: "old", toKey: "taken") }
        expectError(.itemNotFound) {
            try lockbox.copyObject(forKey: "old", toKey: "free", policy: .updateOnly)
        }
        #expect(try lockbox.unarchiveObject(forKey: "taken") == "other")
        #expect(try lockbox.unarchiveObject(forKey: "old") == "v")
        try lockbox.moveObject(forKey: "old", toKey: "taken", policy: .replace)
        #expect(try lockbox.unarchiveObject(forKey: "taken") == "v")
    }

    @Test func ontoItselfNothingHappens() throws {
        let before = try store.snapshot()
        try lockbox.moveObject(forKey: "old", toKey: "old")
        try lockbox.copyObject(forKey: "old", toKey: "old")
        #expect(try store.snapshot() == before)
    }

    /// From the N-th system call on nothing works any more: the item is never in neither place, and the move can be
    /// repeated.
    @Test func interruptedAtEverySystemCall() throws {
        var (calls, isDone) = (0, false)
        while !isDone {
            calls += 1
            let store = try TestStore(copying: store)
            let dying = try store.backend(.failing(from: calls)).lockbox()
            isDone = (try? dying.moveObject(forKey: "old", toKey: "new")) != nil
            let lockbox = try store.lockbox()
            let places = try lockbox.unarchiveObjects(String.self, forKeys: ["old", "new"])
            #expect(!places.isEmpty && Set(places.values) == ["v"], "call \(calls)")
            if places["old"] != nil { try lockbox.moveObject(forKey: "old", toKey: "new") }
            #expect(try lockbox.allKeys() == ["new"], "call \(calls)")
        }
        #expect(calls > 20)
    }

    @Test func whatIsChangedDuringAMoveIsNotLost() throws {
        let store = store
        let isDone = Protected(false)
        // Another process comes before the commit.
        let racing = try store.backend(
            .before(.flock) {
                let isFirst = isDone.withLock { isDone in
                    defer { isDone = true }
                    return !isDone
                }
                if isFirst {
                    #expect(throws: Never.self) { try store.lockbox().archiveObject("newer", forKey: "old") }
                }
                return true
            }
        ).lockbox()
        try racing.moveObject(forKey: "old", toKey: "new", toPrefix: "com.example.other")
        #expect(try store.lockbox("com.example.other").unarchiveObject(forKey: "new") == "newer")
        #expect(try !lockbox.containsObject(forKey: "old"))
    }

    @Test func accessIsChecked() throws {
        let before = try store.snapshot()
        try lockbox.checkAccess()
        let after = try store.snapshot()
        // Of the reserved prefix only the folder with its lock is left.
        #expect(before.allSatisfy { after[$0.key] == $0.value } && after.count == before.count + 2)
        #expect(try lockbox.allKeys() == ["old"])
        #expect(try lockbox.backend.prefixes() == [TestStore.prefix])
        try InMemoryBackend().lockbox("p").checkAccess()
    }

    @Test func whyTheStoreCannotBeUsed() throws {
        for code in [ENOSPC, EROFS, EACCES] {
            let failing = try store.backend(
                SystemCalls { $0 == .write ? .failure(code) : nil }
            ).lockbox()
            expectError(code == ENOSPC ? .storageFailure : .readOnly) { try failing.checkAccess() }
        }
        let backend = try store.backend().setUp()
        try backend.lock()
        let locked = try backend.lockbox()
        expectError(.interactionNotAllowed) { try locked.checkAccess() }
        try locked.checkAccess(accessibility: .always)
        chmod(store.directory, 0o777)
        expectError(.unsafePermissions) { try store.lockbox().checkAccess() }
    }
}
