import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Changes are reported, whoever makes them, and none is missed.
@Suite struct NotificationTests {
    /// Returns the next changes until `isEnough`, or nil after ten seconds.
    private func changes(
        _ sequence: AsyncThrowingStream<LockboxChange, any Error>,
        until isEnough: @escaping @Sendable (Set<LockboxChange>) -> Bool
    ) async throws -> Set<LockboxChange>? {
        try await withThrowingTaskGroup(of: Set<LockboxChange>?.self) { group in
            group.addTask {
                var seen: Set<LockboxChange> = []
                for try await change in sequence {
                    seen.insert(change)
                    if isEnough(seen) { break }
                }
                return seen
            }
            group.addTask {
                try await Task.sleep(for: .seconds(10))
                return nil
            }
            defer { group.cancelAll() }
            return try await group.next() ?? nil
        }
    }

    private func backends(_ store: TestStore) -> [any LockboxBackend] {
        [
            store.backend(), InMemoryBackend(),
            SealedBackend(storage: InMemoryStorage(), deviceKey: .bytes(Array(0..<32))),
        ]
    }

    @Test func writesUpdatesBatchesMovesAndRemovals() async throws {
        let store = try TestStore()
        for backend in backends(store) {
            let lockbox = try backend.lockbox()
            for key in ["old", "removed", "moved"] { try await lockbox.archiveObject(0, forKey: key) }
            let sequence = try await lockbox.async { try $0.changes() }
            try await lockbox.archiveObject("v", forKey: "new")
            try await lockbox.update("old", as: Int.self) { $0 = 2 }
            try await lockbox.removeObject(forKey: "removed")
            try await lockbox.async { lockbox in
                try lockbox.moveObject(forKey: "moved", toKey: "target")
                try lockbox.batch { try $0.archiveObject(1, forKey: "batch") }
            }
            let keys: Set = ["new", "old", "removed", "moved", "target", "batch"]
            let seen = try await changes(sequence) { $0.count == keys.count }
            #expect(seen == Set(keys.map(LockboxChange.item)), "\(type(of: backend))")
        }
    }

    /// Nothing can come between a subscription and the first read.
    @Test func everyWriteAfterTheSubscriptionIsReported() async throws {
        let store = try TestStore()
        for backend in backends(store) {
            let lockbox = try backend.lockbox()
            for round in 0..<20 {
                let sequence = try await lockbox.async { try $0.changes() }
                try await lockbox.archiveObject(round, forKey: "key \(round)")
                let seen = try await changes(sequence) {
                    $0.contains(.item("key \(round)")) || $0.contains(.everything)
                }
                #expect(seen != nil)
            }
        }
    }

    @Test func anotherProcessIsNoticed() async throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        let sequence = try await lockbox.async { try $0.changes() }
        #expect(try TestProcess("write", store.directory, "theirs", "value").wait() == 0)
        let seen = try await changes(sequence) { $0.contains(.item("theirs")) || $0.contains(.everything) }
        #expect(seen != nil)
    }

    /// The folders of the prefix do not exist yet, or are removed, moved and put back meanwhile.
    @Test func foldersThatComeAndGo() async throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        let sequence = try await lockbox.async { try $0.changes() }
        try await lockbox.archiveObject(1, forKey: "first")
        #expect(try await changes(sequence) { !$0.isEmpty } != nil)

        let aside = store.directory + ".aside"
        let again = try await lockbox.async { try $0.changes() }
        try FileManager.default.moveItem(atPath: store.directory, toPath: aside)
        try FileManager.default.moveItem(atPath: aside, toPath: store.directory)
        #expect(try await changes(again) { $0.contains(.everything) } != nil)
        // The folder that is watched now is the one in place.
        let third = try await lockbox.async { try $0.changes() }
        try FileManager.default.moveItem(atPath: store.directory, toPath: aside)
        try FileManager.default.copyItem(atPath: aside, toPath: store.directory)
        let other = try store.lockbox()
        // Again and again: as long as `.everything` waits to be read, it stands for this item too.
        let writer = Task {
            while !Task.isCancelled {
                try await other.archiveObject(2, forKey: "in the copy")
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        let seen = try await changes(third) { $0.contains(.item("in the copy")) }
        writer.cancel()
        _ = await writer.result
        #expect(seen?.contains(.everything) ?? false)
    }

    /// Whoever waits for changes must not make a new store where one was removed.
    @Test func aRemovedStoreStaysRemoved() async throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try await lockbox.archiveObject(1, forKey: "k")
        let sequence = try await lockbox.async { try $0.changes() }
        try FileManager.default.removeItem(atPath: store.directory)
        #expect(try await changes(sequence) { $0.contains(.everything) } != nil)
        try await Task.sleep(for: .milliseconds(100))
        #expect(!FileManager.default.fileExists(atPath: store.directory))
    }

    /// Of one that cannot be read, only that it was changed.
    @Test func aRemovedItemHasANameIfItWasKnown() async throws {
        let store = try TestStore()
        let backend = store.backend()
        let lockbox = try backend.lockbox()
        try await lockbox.archiveObject(1, forKey: "known")
        let name = try backend.recordName(of: ItemKey(prefix: TestStore.prefix, key: "other"))
        let sequence = try await lockbox.async { try $0.changes() }
        let path = backend.storage.location(of: name)
        try Data("x".utf8).write(to: URL(filePath: path))
        try await lockbox.removeObject(forKey: "known")
        #expect(try await changes(sequence) { $0.count == 2 } == [.item("known"), .unknownItem])
    }

    @Test func changesAreMergedUntilTheyAreRead() async throws {
        let lockbox = try InMemoryBackend().lockbox("p")
        let sequence = try await lockbox.async { try $0.changes() }
        for value in 0..<1000 { try await lockbox.archiveObject(value, forKey: "same") }
        try await lockbox.archiveObject(0, forKey: "end")
        var seen: [LockboxChange] = []
        for try await change in sequence {
            seen.append(change)
            if seen.count == 2 { break }
        }
        #expect(Set(seen) == [.item("same"), .item("end")])
        let many = try await lockbox.async { try $0.changes() }
        for key in 0...PendingChanges.maximum { try await lockbox.archiveObject(0, forKey: "\(key)") }
        #expect(try await changes(many) { _ in true } == [.everything])
    }

    /// The kernel forgets events when a queue is full, and says so.
    @Test func anOverflowMeansEverything() async throws {
        let store = try TestStore()
        let folder = Path.parent(of: store.directory)
        let watch = try FolderWatch(folder, depth: 0)
        let events = Protected<[RecordNotice]>([])
        let gate = DispatchSemaphore(value: 0)
        try watch.start { event in
            gate.wait()
            if case .success(let event) = event { events.withLock { $0.append(event) } }
        }
        let limit = try #require(
            Int(String(contentsOfFile: "/proc/sys/fs/inotify/max_queued_events", encoding: .utf8).dropLast())
        )
        for number in 0..<limit + 1000 {
            let path = "\(folder)/\(number & 1)"
            close(open(path, O_CREAT | O_WRONLY, 0o600))
            unlink(path)
        }
        for _ in 0..<limit { gate.signal() }
        let deadline = ContinuousClock.now + .seconds(20)
        while !events.withLock({ $0.contains(.everything) }), ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(events.withLock { $0.contains(.everything) })
        watch.cancel()
    }

    // MARK: The end of a subscription

    /// How many of this process's inotify instances watch the store's folder: inotify(7), proc(5).
    private func watches(of store: TestStore) throws -> Int {
        var status = stat()
        try #require(stat(store.directory, &status) == 0)
        let inode = " ino:\(String(status.st_ino, radix: 16)) "
        return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fdinfo").count {
            (try? String(contentsOfFile: "/proc/self/fdinfo/\($0)", encoding: .utf8))?.contains(inode)
                ?? false
        }
    }

    /// The threads that end them take a moment.
    private func expectNoWatches(of store: TestStore) async throws {
        let deadline = ContinuousClock.now + .seconds(10)
        while try watches(of: store) > 0, ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(5))
        }
        #expect(try watches(of: store) == 0)
    }

    /// Cancellation ends the loop, and with it the thread and its descriptors.
    @Test func cancellationEndsIt() async throws {
        let store = try TestStore()
        let lockbox = try store.lockbox()
        try await lockbox.archiveObject(1, forKey: "k")
        let sequences = try (0..<40).map { _ in try lockbox.changes() }
        #expect(try watches(of: store) == 40)
        let tasks = sequences.enumerated().map { number, sequence in
            Task {
                // Half of them before they wait for a change.
                if number.isMultiple(of: 2) { withUnsafeCurrentTask { $0?.cancel() } }
                for try await _ in sequence {}
                return true
            }
        }
        for task in tasks {
            task.cancel()
            #expect(try await task.value)
        }
        try await expectNoWatches(of: store)
        _ = sequences.count
    }

    /// A sequence that nobody reads is released, too.
    @Test func anUnusedSequenceIsReleased() async throws {
        let backend = SubscribedBackend()
        // Not with `async { }`, whose thread may let go of a sequence a moment later.
        func subscribe(to lockbox: Lockbox) throws { _ = try lockbox.changes() }
        for _ in 0..<100 { try subscribe(to: backend.lockbox()) }
        #expect(backend.started.withLock { $0 } == 100 && backend.ended.withLock { $0 } == 100)
        let store = try TestStore()
        let files = try store.lockbox()
        try await files.archiveObject(1, forKey: "k")
        for _ in 0..<10 {
            for _ in 0..<10 { try subscribe(to: files) }
            try await expectNoWatches(of: store)
        }
    }

    @Test func aBackendThatCannotTellSaysSo() throws {
        let lockbox = try HookedBackend().lockbox()
        expectError(.notSupported) { try lockbox.changes() }
    }
}

/// Reports nothing, and counts its subscriptions.
private struct SubscribedBackend: WrappingBackend {
    let wrapped: any LockboxBackend = InMemoryBackend()
    let started = Protected(0)
    let ended = Protected(0)

    func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) -> @Sendable () -> Void {
        _ = started.next()
        let hasEnded = Protected(false)
        return { [ended] in if hasEnded.raise() { _ = ended.next() } }
    }
}
