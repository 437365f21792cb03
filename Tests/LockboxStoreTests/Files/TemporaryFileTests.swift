import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A writer's file is in `tmp` before it has the lock.
@Suite struct TemporaryFileTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        try store.lockbox().archiveObject("old", forKey: "key")
    }

    /// Runs `body` before the n-th call of that name since it was armed.
    private final class Hook: Sendable {
        private let armed = Protected(false)
        let trace = Protected<[SystemCalls.Call]>([])

        func calls(
            before call: SystemCalls.Call,
            _ number: Int,
            _ body: @escaping @Sendable () throws -> Void
        )
            -> SystemCalls
        {
            SystemCalls { [armed, trace] next in
                guard armed.withLock({ $0 }) else { return nil }
                let count = trace.withLock { trace in
                    trace.append(next)
                    return trace.count { $0 == call }
                }
                if next == call, count == number { #expect(throws: Never.self) { try body() } }
                return nil
            }
        }

        func arm() { armed.withLock { $0 = true } }
    }

    private var temporary: [String] {
        get throws { try FileManager.default.contentsOfDirectory(atPath: "\(store.directory)/tmp") }
    }

    /// Another process opens the store, and removes leftovers, while the writer waits for the lock.
    @Test func aWaitingFileIsNoLeftover() throws {
        let hook = Hook()
        // The first lock is the file's, the second the folder's.
        let calls = hook.calls(before: .flock, 2) { [store] in
            let other = try store.lockbox()
            try other.archiveObject("other", forKey: "another key")
            let names = try FileManager.default.contentsOfDirectory(atPath: "\(store.directory)/tmp")
            #expect(names.count == 1)
        }
        let writer = try store.backend(calls).lockbox()
        #expect(try writer.unarchiveObject(forKey: "key") == "old")
        hook.arm()
        try writer.archiveObject("new", forKey: "key")
        #expect(hook.trace.withLock { $0.count { $0 == .rename } } == 1)
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
        #expect(try temporary == [])
    }

    /// Between its creation and its lock it looks like a leftover. It is written again.
    @Test func aFileThatWasSweptAwayIsWrittenAgain() throws {
        let hook = Hook()
        let calls = hook.calls(before: .flock, 1) { [store] in
            _ = try store.lockbox().allKeys()
            let folder = "\(store.directory)/tmp"
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                unlink("\(folder)/\(name)")
            }
        }
        let writer = try store.backend(calls).lockbox()
        #expect(try writer.unarchiveObject(forKey: "key") == "old")
        hook.arm()
        try writer.archiveObject("new", forKey: "key")
        #expect(hook.trace.withLock { $0.count { $0 == .rename } } == 2)
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
        #expect(try temporary == [])
    }

    /// A sweeper has its lock for a moment, before its writer does.
    @Test func aFileThatIsLookedAtIsWritten() throws {
        let hook = Hook()
        let calls = hook.calls(before: .flock, 1) { [store] in
            let folder = "\(store.directory)/tmp"
            let name = try #require(try FileManager.default.contentsOfDirectory(atPath: folder).first)
            let file = open("\(folder)/\(name)", O_RDONLY | O_CLOEXEC)  // until the end of the test
            #expect(flock(file, LOCK_EX | LOCK_NB) == 0)
        }
        let writer = try store.backend(calls).lockbox()
        #expect(try writer.unarchiveObject(forKey: "key") == "old")
        hook.arm()
        try writer.archiveObject("new", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "new")
    }

    /// While one writer waits for the disk, another one writes.
    @Test(arguments: [1, 2]) func nobodyWaitsForTheDiskOfAnother(_ sync: Int) throws {
        let hook = Hook()
        let calls = hook.calls(before: .fsync, sync) { [store] in
            let other = try store.backend(lockTimeout: .milliseconds(50)).lockbox()
            try other.archiveObject("other", forKey: "another key")
        }
        let writer = try store.backend(calls).lockbox()
        #expect(try writer.unarchiveObject(forKey: "key") == "old")
        hook.arm()
        try writer.archiveObject("new", forKey: "key")
        #expect(try store.lockbox().allKeys() == ["key", "another key"])
    }

    /// Items are sealed with a keybag's keys as soon as it can be read. So no other one replaces it before it is
    /// durable.
    @Test func theKeybagIsDurableBeforeItsLockIsReleased() throws {
        let hook = Hook()
        let refused = Protected<LockboxError.Code?>(nil)
        let calls = hook.calls(before: .fsync, 5) { [store] in
            let other = store.backend(lockTimeout: .milliseconds(50))
            try other.unlock(.value("1"))
            let error = #expect(throws: LockboxError.self) {
                try other.changePasscode(to: .value("2"), strength: .interactive)
            }
            refused.withLock { $0 = error?.code }
        }
        let backend = store.backend(calls)
        _ = try backend.lockState
        hook.arm()
        try backend.setPasscode(.value("1"), strength: .interactive)
        #expect(refused.withLock { $0 } == .lockTimeout)
    }

    @Test func soItIsIfTheCommitTakesTheLockItself() throws {
        let hook = Hook()
        let refused = Protected<LockboxError.Code?>(nil)
        let calls = hook.calls(before: .fsync, 2) { [store] in
            let other = store.storage(lockTimeout: .milliseconds(50))
            let error = #expect(throws: LockboxError.self) { try other.lock([nil]) }
            refused.withLock { $0 = error?.code }
        }
        let storage = store.storage(calls)
        hook.arm()
        _ = try storage.commit([.put(RecordName(name: "keybag"), readBytes(store.keybag))], expecting: [:])
        #expect(hook.trace.withLock { $0.count { $0 == .fsync } } == 2, "the file, and then the folder")
        #expect(refused.withLock { $0 } == .lockTimeout)
    }
}
