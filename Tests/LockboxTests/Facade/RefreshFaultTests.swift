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
    let claimKey: ItemKey
    let memory = InMemoryBackend()

    init() throws { claimKey = try ItemKey(storedPrefix: "\0refresh\0com.example.app", key: "session") }

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
                let item = memory.item(for: claimKey, now: nil)
                kept.withLock { $0 = item }
                throw Refused()
            }
        }
        let item = try #require(kept.withLock { $0 })
        try await memory.async { try $0.write(item, policy: .replace) }
        asked.withLock { $0 = [] }
    }

    /// Whether the value may be spent is not forgotten if the item's date cannot be changed.
    @Test func aLostTouchKeepsWhatMayBeSpent() async throws {
        try put(memory)
        try await leaveClaim()
        let count = Protected(0)
        let hooked = HookedBackend(
            wrapped: memory,
            beforeUpdating: {
                let number = count.next()
                // The touch follows the claim.
                if number == 2 {
                    try? memory.lockbox("com.example.app")
                        .setAttributes(WriteOptions(label: "mine"), forKey: "session")
                }
            }
        )
        _ = try await refresh(hooked)
        #expect(asked.withLock { $0 } == ["a, perhaps spent"])
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
                if number == 2 { isStopped.withLock { $0 = true } }
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

    /// The sweeper has looked at the new file before its creator has locked it.
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
                    Thread.detachNewThread {
                        let other = FileStorage(StoreLocation(store.directory), calls: sweeper)
                        _ = try? other.folders.folder(.root, creating: false)
                        done.signal()
                    }
                    let end = ContinuousClock.now + .seconds(2)
                    while !isSweeping.withLock({ $0 }), .now < end { usleep(1000) }
                }
                return nil
            }
        )
        // Opens and sweeps.
        _ = try storage.namespaces()
        started.withLock { $0 = false }
        let presence = Protected<Presence?>(nil)
        let hasPresence = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            let made = try? storage.presence()
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

    /// The lock of the claims is held for longer than one look.
    @Test func aCanceledCallerGivesItsClaimBack() async throws {
        let store = try TestStore()
        let backend = store.backend(lockTimeout: .seconds(30))
        try put(backend)
        let task = Task {
            try await refresh(backend) {
                let isHeld = DispatchSemaphore(value: 0)
                let storage = FileStorage(directory: store.directory)
                let own = try store.path("session").split(separator: "/").map(String.init)
                let namespace = try #require(try storage.namespaces().first { !own.contains($0) })
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
        #expect(try await backend.async { try $0.item(for: claimKey, now: nil) } == nil)
        _ = try await refresh(backend)
        #expect(asked.withLock { $0 } == ["a", "a"])
    }

    private static func wait(_ semaphore: DispatchSemaphore) { semaphore.wait() }

    /// Three callers: the first is stopped, the second takes over and fails before it begins, the third refreshes.
    /// three callers. The first is stopped, the second takes over and fails before it begins, the third refreshes.
    @Test func aStoppedHolderIsFencedBySomebodyLater() async throws {
        try put(memory)
        let isStopped = Protected(false)
        let stopped = HookedBackend(
            wrapped: memory,
            beforeUpdating: { while isStopped.withLock({ $0 }) { usleep(1000) } }
        )
        let third = Protected<Task<Session?, any Error>?>(nil)
        let (hasBegun, mayEnd) = (Protected(false), Protected(false))
        let first = try await refresh(stopped, "first ") {
            isStopped.withLock { $0 = true }
            let count = Protected(0)
            let failing = HookedBackend(
                wrapped: memory,
                beforeUpdating: { count.withLock { $0 += 1 } }
            )
            let second = FailingUpdates(wrapped: failing) { count.withLock { $0 } == 1 }
            await #expect(throws: LockboxError.self) { try await refresh(second, "second ") }
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
        #expect(asked.withLock { $0 } == ["first a", "third a, perhaps spent"])
    }

    /// All processes of a container are stopped and go on together.
    @Test func aWaitThatWasStoppedItselfIsShort() {
        let holder = RefreshRecord.Holder(id: 1, beat: 1, takeover: 8, presence: nil, value: "")
        var (watch, now) = (RefreshWatch(), SuspendingClock.now)
        func silence(after time: Duration) -> Duration {
            now += time
            return watch.silence(of: holder, patience: .seconds(8), now: now)
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
        #expect(memory.item(for: claimKey, now: nil) == nil)
    }

    /// The claim is there, and its caller does not know.
    @Test func aClaimWithAnUnknownOutcomeIsGivenBack() async throws {
        try put(memory)
        let count = Protected(0)
        let unknown = UnknownBackend(wrapped: memory) { count.next() == 1 }
        await #expect(throws: LockboxError.self) { try await refresh(unknown) }
        #expect(memory.item(for: claimKey, now: nil) == nil)
        _ = try await refresh(memory, "", .init(takeover: .seconds(1)))
        #expect(asked.withLock { $0 } == ["a"])
    }

    @Test func aWriteWithAnUnknownOutcomeIsDoneOnce() async throws {
        try await expectOneRefresh(steps: 4) { UnknownBackend(wrapped: memory, isUnknown: $0) }
    }

    @Test func aStepThatIsDecidedTwiceIsDoneOnce() async throws {
        try await expectOneRefresh(steps: 3) { TwiceBackend(wrapped: memory, isTwice: $0) }
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
            #expect(memory.item(for: claimKey, now: nil) == nil, "\(number)")
        }
    }

    /// The claim cannot be read, and the item has been written.
    @Test func whatIsStoredIsNotReportedAsLost() async throws {
        try put(memory)
        let isAway = Protected(false)
        let hooked = AwayBackend(wrapped: memory, claimKey: claimKey) { isAway.withLock { $0 } }
        let value = try await refresh(hooked, "", .init(storing: .milliseconds(50))) {
            isAway.withLock { $0 = true }
        }
        #expect(value?.token == "a+")
    }
}

private struct FailingUpdates: WrappingBackend {
    var wrapped: any LockboxBackend
    let fails: @Sendable () -> Bool

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        if key.prefix.first != "\0", fails() {
            throw LockboxError.storageFailure(operation: "write", path: "x", errno: EIO)
        }
        try wrapped.update(key, now: now, change)
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

private struct AwayBackend: WrappingBackend {
    var wrapped: any LockboxBackend
    let claimKey: ItemKey
    let isAway: @Sendable () -> Bool

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        if key == claimKey, isAway() {
            throw LockboxError.storageFailure(operation: "read", path: "x", errno: EIO)
        }
        return try wrapped.item(for: key, now: now)
    }
}
