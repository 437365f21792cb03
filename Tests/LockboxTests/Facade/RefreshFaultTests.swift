import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Faults, and callers that are stopped where it hurts most.
@Suite struct RefreshFaultTests {
    typealias Session = Refreshing.Session
    typealias Refused = Refreshing.Refused

    let refreshing = Refreshing()
    var asked: Protected<[String]> { refreshing.asked }
    let key: ItemKey
    let memory = InMemoryBackend()
    var claim: String? { memory.item(for: key, now: nil)?.attributes.claim }

    init() throws { key = try ItemKey(prefix: "com.example.app", key: "session") }

    func put(_ backend: some LockboxBackend, _ session: Session = Session(token: "a")) throws {
        try backend.lockbox("com.example.app").archiveObject(session, forKey: "session")
    }

    func refresh(
        _ backend: some LockboxBackend,
        _ name: String = "",
        _ limits: Lockbox.RefreshLimits = .init(takeover: .milliseconds(200), storing: .seconds(2)),
        whileRefreshing body: @Sendable () async throws -> Void = {}
    ) async throws -> Session? {
        try await refreshing.refresh(backend.lockbox("com.example.app"), name, limits, whileRefreshing: body)
    }

    /// Leaves the claim of a holder that has died.
    func leaveClaim() async throws {
        let kept = Protected<StoredItem?>(nil)
        await #expect(throws: Refused.self) {
            _ = try await refresh(memory) {
                let item = memory.item(for: key, now: nil)
                kept.withLock { $0 = item }
                throw Refused()
            }
        }
        let item = try #require(kept.withLock { $0 })
        try await memory.async { [key] in try $0.update(key, now: nil) { _ in item } }
        asked.withLock { $0 = [] }
    }

    /// It was stopped between its claim and its start.
    @Test func aHolderStoppedBeforeItBeginsDoesNotBegin() async throws {
        try put(memory)
        let (reads, isStopped) = (Protected(0), Protected(false))
        let updates = Protected(0)
        let hooked = HookedBackend(
            wrapped: memory,
            beforeReading: { key in
                guard key.prefix == "com.example.app" else { return }
                let number = reads.next()
                if number == 3 { isStopped.withLock { $0 = true } }
                while isStopped.withLock({ $0 }) { usleep(1000) }
            },
            beforeUpdating: {
                if updates.next() == 1 { return }
                while isStopped.withLock({ $0 }) { usleep(1000) }
            }
        )
        async let stopped = refresh(hooked, "stopped ")
        while !isStopped.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
        let other = try await refresh(memory, "other ") {
            isStopped.withLock { $0 = false }
            try await Task.sleep(for: .milliseconds(500))
        }
        #expect(other?.token == "a+")
        _ = try await stopped
        #expect(asked.withLock { $0 } == ["other a, perhaps spent"])
    }

    /// A caller with little patience waits for a sign as long as the holder has promised one.
    @Test func limitsMayDiffer() async throws {
        try put(memory)
        _ = try await refresh(memory, "patient ", .init(takeover: .seconds(8))) {
            let other = Task { try await refresh(memory, "hasty ", .init(takeover: .milliseconds(100))) }
            try await Task.sleep(for: .seconds(1))
            other.cancel()
        }
        #expect(asked.withLock { $0 } == ["patient a"])
    }

    /// Too few descriptors say nothing about a process.
    @Test(arguments: [EMFILE, ENFILE, ENOMEM, EIO]) func aHolderThatCannotBeLookedAtIsNotDead(_ code: CInt)
        async throws
    {
        let store = try TestStore()
        let holder = store.backend(lockTimeout: .seconds(30))
        try put(holder)
        let (number, opens) = (Protected(Int.max), Protected(0))
        let other = store.backend(
            SystemCalls { call in
                guard call == .open else { return nil }
                let count = opens.next()
                return count == number.withLock { $0 } ? .failure(code) : nil
            },
            lockTimeout: .seconds(30)
        )
        let limits = Lockbox.RefreshLimits(takeover: .seconds(30), storing: .seconds(1))
        _ = try await refresh(holder, "", limits) {
            for fault in 1...12 {
                opens.withLock { $0 = 0 }
                number.withLock { $0 = fault }
                let task = Task { try await refresh(other, "\(fault) ", limits) }
                try await Task.sleep(for: .milliseconds(100))
                task.cancel()
                _ = try? await task.value
            }
        }
        #expect(asked.withLock { $0 } == ["a"])
    }

    /// The sweeper, whose clock is wrong, has looked at the new file before its creator has locked it.
    @Test func aSweepSparesAPresence() async throws {
        let store = try TestStore()
        try put(store.backend())
        let isSweeping = Protected(false)
        let isGoing = Protected(false)
        let started = Protected(false)
        let sweeper = SystemCalls { call in
            if call == .unlink {
                isSweeping.withLock { $0 = true }
                while !isGoing.withLock({ $0 }) { usleep(1000) }
            }
            return nil
        }
        let done = DispatchSemaphore(value: 0)
        let storage = FileStorage(
            StoreLocation(store.directory),
            calls: SystemCalls { call in
                // The lock of the new file.
                if call == .flock, started.raise() {
                    let folder = "\(store.directory)/tmp"
                    for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
                        let old = [FileAttributeKey.modificationDate: Date(timeIntervalSince1970: 0)]
                        try? FileManager.default.setAttributes(old, ofItemAtPath: "\(folder)/\(name)")
                    }
                    Thread.detachNewThread {
                        let other = FileStorage(StoreLocation(store.directory), calls: sweeper)
                        _ = try? other.folders.folderForWriting(.temporary)
                        done.signal()
                    }
                    let end = ContinuousClock.now + .seconds(2)
                    while !isSweeping.withLock({ $0 }), .now < end { usleep(1000) }
                }
                return nil
            }
        )
        let presence = Protected<Presence?>(nil)
        let hasPresence = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            let made = try? storage.presence(room: 0)
            presence.withLock { $0 = made }
            hasPresence.signal()
        }
        // In time, or after the sweep.
        _ = hasPresence.wait(timeout: .now() + 3)
        isGoing.withLock { $0 = true }
        done.wait()
        if presence.withLock({ $0 }) == nil { hasPresence.wait() }
        let name = try #require(presence.withLock { $0?.name })
        #expect(try FileStorage(directory: store.directory).isPresent(name))
    }

    /// The lock of the item is held for longer than one look.
    @Test func aCanceledCallerGivesItsClaimBack() async throws {
        let store = try TestStore()
        let backend = store.backend(lockTimeout: .seconds(30))
        try put(backend)
        let task = Task {
            try await refresh(backend) {
                let isHeld = DispatchSemaphore(value: 0)
                let storage = FileStorage(directory: store.directory)
                let namespace = try backend.recordName(of: key).namespace
                Thread.detachNewThread {
                    try? storage.holdingLock(of: namespace) {
                        isHeld.signal()
                        usleep(1_500_000)
                    }
                }
                Self.wait(isHeld)
                withUnsafeCurrentTask { $0?.cancel() }
                try Task.checkCancellation()
            }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(try await backend.async { try $0.item(for: key, now: nil) }?.attributes.claim == nil)
        _ = try await refresh(backend)
        #expect(asked.withLock { $0 } == ["a", "a"])
    }

    private static func wait(_ semaphore: DispatchSemaphore) { semaphore.wait() }

    /// Three callers: the first is stopped, the second takes over and fails, the third refreshes.
    @Test func aStoppedHolderIsFencedBySomebodyLater() async throws {
        try put(memory)
        let isStopped = Protected(false)
        let stopped = HookedBackend(
            wrapped: memory,
            beforeUpdating: { while isStopped.withLock({ $0 }) { usleep(1000) } }
        )
        let third = Protected<Task<Session?, any Error>?>(nil)
        let (hasBegun, mayEnd) = (Protected(false), Protected(false))
        // On a busy machine, the third one may take seconds.
        let patient = Lockbox.RefreshLimits(takeover: .milliseconds(200), storing: .seconds(60))
        let first = try await refresh(stopped, "first ", patient) {
            isStopped.withLock { $0 = true }
            await #expect(throws: Refused.self) { try await refresh(memory, "second ") { throw Refused() } }
            third.withLock {
                $0 = Task {
                    try await refresh(memory, "third ") {
                        hasBegun.withLock { $0 = true }
                        while !mayEnd.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
                    }
                }
            }
            while !hasBegun.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
            isStopped.withLock { $0 = false }
            Task {
                try await Task.sleep(for: .milliseconds(100))
                mayEnd.withLock { $0 = true }
            }
        }
        let result = try await third.withLock { $0 }?.value
        #expect(first?.token == "a+" && result?.token == "a+")
        #expect(asked.withLock { $0 } == ["first a", "second a, perhaps spent", "third a, perhaps spent"])
    }

    /// All processes of a container are stopped and go on together.
    @Test func aWaitThatWasStoppedItselfIsShort() {
        var (watch, now) = (Silence(), Duration.zero)
        func silence(after time: Duration) -> Duration {
            now += time
            return watch.lasts(with: "1 1 8000", patience: .seconds(8), now: now)
        }
        #expect(silence(after: .zero) == .zero)
        #expect(silence(after: .seconds(3600)) == .seconds(2))
        #expect(silence(after: .seconds(1)) == .seconds(3))
    }

    /// Nobody waits, but the calls of a process see it together.
    @Test func aStoppedHolderIsFollowedWhileTheValueIsUsable() async throws {
        try put(memory, Session(token: "a", isUsable: true))
        try await leaveClaim()
        let end = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < end, asked.withLock({ $0 }) == [] {
            _ = try await refresh(memory)
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(asked.withLock { $0 } == ["a, perhaps spent"])
    }

    /// It would wait for itself.
    @Test func theSameKeyIsNotRefreshedWithin() async throws {
        try put(memory)
        let result = try await refresh(memory) {
            await #expect(throws: LockboxError.self) { try await refresh(memory) }
        }
        #expect(result?.token == "a+")
        #expect(asked.withLock { $0 } == ["a"])
    }

    /// After a sign-out, or another sign-in, the value is gone.
    @Test(arguments: [true, false]) func noClaimStays(isRemoved: Bool) async throws {
        try put(memory)
        _ = try? await refresh(memory) {
            if isRemoved {
                try await memory.lockbox("com.example.app").removeObject(forKey: "session")
            } else {
                try put(memory, Session(token: "b", isFresh: true))
            }
        }
        _ = try await refresh(memory)
        #expect(claim == nil)
    }

    /// The claim is there, and its caller does not know.
    @Test func aClaimWithAnUnknownOutcomeIsGivenBack() async throws {
        try put(memory)
        let count = Protected(0)
        let unknown = UnknownBackend(wrapped: memory) { count.next() == 1 }
        await #expect(throws: LockboxError.self) { try await refresh(unknown) }
        #expect(claim == nil)
        _ = try await refresh(memory, "", .init(takeover: .seconds(1)))
        #expect(asked.withLock { $0 } == ["a"])
    }

    @Test func aWriteWithAnUnknownOutcomeIsDoneOnce() async throws {
        try await expectOneRefresh(steps: 2) { UnknownBackend(wrapped: memory, isUnknown: $0) }
    }

    @Test func aStepThatIsDecidedTwiceIsDoneOnce() async throws {
        try await expectOneRefresh(steps: 2) { TwiceBackend(wrapped: memory, isTwice: $0) }
    }

    /// - Parameter backend: Returns one with a fault at the step for which the closure is true.
    private func expectOneRefresh(
        steps: Int,
        _ backend: (@escaping @Sendable () -> Bool) -> any LockboxBackend
    ) async throws {
        for number in 1...steps {
            try await memory.lockbox("com.example.app").removeObject(forKey: "session")
            try put(memory)
            asked.withLock { $0 = [] }
            let count = Protected(0)
            _ = try? await refresh(backend { count.next() == number })
            _ = try await refresh(memory)
            #expect(asked.withLock { $0 } == ["a"], "\(number)")
            #expect(claim == nil, "\(number)")
        }
    }
}

private struct UnknownBackend: WrappingBackend {
    var wrapped: any LockboxBackend
    let isUnknown: @Sendable () -> Bool

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try wrapped.update(key, now: now, change)
        if isUnknown() { throw LockboxError.outcomeUnknown(record: key.location, reason: "the test says so") }
    }
}

private struct TwiceBackend: WrappingBackend {
    var wrapped: any LockboxBackend
    let isTwice: @Sendable () -> Bool

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try wrapped.update(key, now: now, change)
        if isTwice() { try wrapped.update(key, now: now, change) }
    }
}
