import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A session, an issuer that makes the next token, and a record of what it was asked with.
struct Refreshing: Sendable {
    struct Session: Codable, Sendable, Equatable {
        var token: String
        var isFresh = false
        var isUsable = false
    }

    struct Refused: Error {}

    let asked = Protected<[String]>([])

    /// - Parameter name: Of the caller, for the record.
    func refresh(
        _ lockbox: Lockbox,
        _ name: String,
        _ limits: Lockbox.RefreshLimits,
        whileRefreshing body: @Sendable () async throws -> Void
    ) async throws -> Session? {
        try await lockbox.refreshed(
            "session",
            as: Session.self,
            limits: limits,
            isFresh: \.isFresh,
            isUsable: \.isUsable
        ) { old in
            asked.withLock {
                $0.append(name + (old.mayBeSpent ? "\(old.value.token), perhaps spent" : old.value.token))
            }
            try await body()
            return Session(token: old.value.token + "+", isFresh: true)
        }
    }
}

/// The verb, as one process can see it. Proofs/Refresh/run kills and stops others.
@Suite struct RefreshTests {
    private typealias Session = Refreshing.Session
    private typealias Refused = Refreshing.Refused

    private let store: TestStore
    private let backend: EncryptedFileBackend
    private let lockbox: Lockbox
    private let refreshing = Refreshing()
    private var asked: Protected<[String]> { refreshing.asked }

    init() throws {
        store = try TestStore()
        backend = store.backend(lockTimeout: .seconds(30))
        lockbox = try backend.lockbox()
    }

    private func refresh(
        _ lockbox: Lockbox? = nil,
        _ limits: Lockbox.RefreshLimits = .init(),
        whileRefreshing body: @Sendable () async throws -> Void = {}
    ) async throws -> Session? {
        try await refreshing.refresh(lockbox ?? self.lockbox, "", limits, whileRefreshing: body)
    }

    private func put(_ session: Session?) throws { try lockbox.archiveObject(session, forKey: "session") }

    private var session: Session? { get throws { try lockbox.unarchiveObject(forKey: "session") } }

    private var claim: String? {
        get throws { try lockbox.attributes(forKey: "session")?.searchable["lockbox.claim"] }
    }

    @Test func aFreshValueIsOnlyRead() async throws {
        try put(Session(token: "a", isFresh: true))
        let calls = Protected<[SystemCalls.Call]>([])
        let other = try store.backend(
            SystemCalls { call in
                calls.withLock { $0.append(call) }
                return nil
            }
        ).lockbox()
        _ = try await refresh(other)
        calls.withLock { $0 = [] }
        #expect(try await refresh(other) == Session(token: "a", isFresh: true))
        let made = calls.withLock { $0 }
        #expect(made.contains(.read) && Set(made).isSubset(of: [.open, .read, .close, .fstat, .stat]))
        #expect(made.count { $0 == .open } <= 2, "the item, and a look at the keybag")
        #expect(asked.withLock { $0 } == [])
    }

    @Test(arguments: [true, false]) func manyCallersRefreshOnce(isInFiles: Bool) async throws {
        let lockboxes =
            isInFiles
            ? [lockbox, try store.backend(lockTimeout: .seconds(30)).lockbox()]
            : [try Lockbox(keyPrefix: "com.example.app", backend: InMemoryBackend())]
        try await lockboxes[0].archiveObject(Session(token: "a"), forKey: "session")
        let sessions = try await withThrowingTaskGroup(of: Session?.self) { group in
            for number in 0..<64 {
                group.addTask {
                    try await refresh(lockboxes[number % lockboxes.count]) {
                        try await Task.sleep(for: .milliseconds(50))
                    }
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(sessions.map(\.?.token)) == ["a+"] && sessions.count == 64)
        #expect(asked.withLock { $0 } == ["a"])
        if isInFiles {
            #expect(try claim == nil)
            #expect(try FileManager.default.contentsOfDirectory(atPath: store.directory + "/tmp") == [])
        }
    }

    @Test func theOldValueServesMeanwhile() async throws {
        try put(Session(token: "a", isUsable: true))
        let result = try await refresh {
            #expect(try await refresh()?.token == "a", "at once")
            #expect(try await lockbox.async { try $0.allKeys() } == ["session"], "the claim is no item")
            #expect(try await backend.async { try $0.prefixes() } == [TestStore.prefix])
            try await lockbox.archiveObject("v", forKey: "another")
        }
        #expect(result?.token == "a+")
        #expect(asked.withLock { $0 } == ["a"])
    }

    @Test func whatIsAbsentIsNotRefreshed() async throws {
        #expect(try await refresh() == nil)
        #expect(!FileManager.default.fileExists(atPath: store.directory))
        #expect(asked.withLock { $0 } == [])
    }

    @Test func aFailureLeavesTheOldValue() async throws {
        try put(Session(token: "a"))
        await #expect(throws: Refused.self) { try await refresh { throw Refused() } }
        #expect(try session == Session(token: "a"))
        #expect(try claim == nil)
        #expect(try await refresh()?.token == "a+")
        #expect(asked.withLock { $0 } == ["a", "a"])
    }

    @Test func aSignOutDuringTheRefreshStands() async throws {
        try put(Session(token: "a"))
        let error = await #expect(throws: Lockbox.RefreshError<Session>.self) {
            try await refresh { try put(nil) }
        }
        #expect((error?.reason as? LockboxError)?.code == .itemNotFound)
        #expect(error?.value.token == "a+")
        #expect(error.map { "\($0)" }?.contains("a+") == false)
        #expect(try session == nil)
    }

    @Test func aSignInDuringTheRefreshStands() async throws {
        try put(Session(token: "a"))
        let result = try await refresh { try put(Session(token: "b", isFresh: true)) }
        #expect(result?.token == "b")
        #expect(try session?.token == "b" && claim == nil)
    }

    /// A label is not the value.
    @Test func attributesMayChangeMeanwhile() async throws {
        try await lockbox.archiveObject(
            Session(token: "a"),
            forKey: "session",
            options: WriteOptions(accessibility: .always, expires: .after(1000))
        )
        let expires = try await lockbox.async { try $0.attributes(forKey: "session") }?.expires
        _ = try await refresh {
            try await lockbox.async { try $0.setAttributes(WriteOptions(label: "mine"), forKey: "session") }
        }
        let attributes = try await lockbox.async { try $0.attributes(forKey: "session") }
        #expect(attributes?.label == "mine" && attributes?.expires == expires)
        #expect(attributes?.accessibility == .always)
        #expect(try session?.token == "a+")
    }

    /// In every process, so that an update which changes nothing does not replace the value during a refresh.
    @Test func theSameValueHasTheSameBytes() throws {
        let members = Dictionary(uniqueKeysWithValues: zip("abcdefgh".map(String.init), 0...))
        try lockbox.archiveObject(members, forKey: "session")
        let value = try backend.value(for: ItemKey(prefix: TestStore.prefix, key: "session"), now: nil)
        let json = #"{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7}"#
        #expect(value.map { String(decoding: $0.data, as: UTF8.self) } == json)
    }

    @Test func aCanceledCallerStoresAllTheSame() async throws {
        try put(Session(token: "a"))
        let task = Task {
            try await refresh { withUnsafeCurrentTask { $0?.cancel() } }
        }
        #expect(try await task.value?.token == "a+")
        #expect(try session?.token == "a+")
    }

    @Test func cancelingEndsAWait() async throws {
        try put(Session(token: "a"))
        _ = try await refresh {
            let waiting = Task { try await refresh() }
            try await Task.sleep(for: .milliseconds(20))
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
        #expect(asked.withLock { $0 } == ["a"])
    }

    /// The kernel tells that a process has died. Here its claim is left, and its file is unlocked.
    @Test func aDeadHolderIsFollowedAtOnce() async throws {
        try put(Session(token: "a"))
        let copy = try Protected(TestStore(copying: store))
        _ = try await refresh {
            let store = try TestStore(copying: store)
            copy.withLock { $0 = store }
        }
        let later = try copy.withLock { $0 }.backend(lockTimeout: .seconds(30)).lockbox()
        let start = ContinuousClock.now
        #expect(try await refresh(later)?.token == "a+")
        #expect(ContinuousClock.now - start < .seconds(5))
        #expect(asked.withLock { $0 } == ["a", "a, perhaps spent"])
    }

    /// Without a sign of life, another caller takes over. The first one gets what that one has stored.
    @Test func aStoppedHolderGetsTheNewerValue() async throws {
        let limits = Lockbox.RefreshLimits(takeover: .milliseconds(100))
        let memory = InMemoryBackend()
        try await memory.lockbox("com.example.app").archiveObject(Session(token: "a"), forKey: "session")
        // It cannot give signs, as if it were stopped.
        let isStopped = Protected(false)
        let stopped = try HookedBackend(
            wrapped: memory,
            beforeUpdating: { while isStopped.withLock({ $0 }) { usleep(1000) } }
        ).lockbox("com.example.app")
        let other = try memory.lockbox("com.example.app")
        let result = try await refresh(stopped, limits) {
            isStopped.withLock { $0 = true }
            defer { isStopped.withLock { $0 = false } }
            #expect(try await refresh(other, limits)?.token == "a+")
            try await other.archiveObject(Session(token: "newer", isFresh: true), forKey: "session")
        }
        #expect(result?.token == "newer")
        #expect(asked.withLock { $0 } == ["a", "a, perhaps spent"])
    }

    /// The other one may have used the token already.
    @Test func aHolderThatWasStoppedBeforeItBeganDoesNotBegin() async throws {
        let limits = Lockbox.RefreshLimits(takeover: .milliseconds(100))
        let memory = InMemoryBackend()
        try await memory.lockbox("com.example.app").archiveObject(Session(token: "a"), forKey: "session")
        let (isStopped, hasClaimed, looks) = (Protected(true), Protected(false), Protected(0))
        let stopped = try HookedBackend(
            wrapped: memory,
            beforeReading: { if $0.key == "session" { looks.withLock { $0 += 1 } } },
            afterUpdating: {
                hasClaimed.withLock { $0 = true }
                while isStopped.withLock({ $0 }) { usleep(1000) }
            }
        ).lockbox("com.example.app")
        let first = Task { try await refresh(stopped, limits) }
        while !hasClaimed.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
        let result = try await refresh(memory.lockbox("com.example.app"), limits) {
            let before = looks.withLock { $0 }
            isStopped.withLock { $0 = false }
            // It looks before it begins, and once more if it does not begin.
            while looks.withLock({ $0 }) < before + 2, asked.withLock({ $0.count }) < 2 {
                try await Task.sleep(for: .milliseconds(1))
            }
        }
        #expect(try await first.value == result)
        #expect(asked.withLock { $0 } == ["a, perhaps spent"])
    }

    /// A label that changes while another caller takes over.
    @Test func itIsNotForgottenThatATokenMayBeSpent() async throws {
        let limits = Lockbox.RefreshLimits(takeover: .milliseconds(100))
        let memory = InMemoryBackend()
        let lockbox = try memory.lockbox("com.example.app")
        try await lockbox.archiveObject(Session(token: "a"), forKey: "session")
        let isStopped = Protected(true)
        let stopped = try HookedBackend(
            wrapped: memory,
            beforeUpdating: { while isStopped.withLock({ $0 }) { usleep(1000) } }
        ).lockbox("com.example.app")
        let updates = Protected(0)
        let other = try HookedBackend(
            wrapped: memory,
            beforeUpdating: {
                let number = updates.withLock { number in
                    number += 1
                    return number
                }
                if number > 3 { return }
                try? lockbox.setAttributes(WriteOptions(label: .set("\(number)")), forKey: "session")
            }
        ).lockbox("com.example.app")
        isStopped.withLock { $0 = false }
        _ = try await refresh(stopped, limits) {
            isStopped.withLock { $0 = true }
            defer { isStopped.withLock { $0 = false } }
            _ = try await Task { try await refresh(other, limits) }.value
        }
        #expect(asked.withLock { $0 } == ["a", "a, perhaps spent"])
    }

    /// A refresh may take longer than the time after which a stopped one is followed.
    @Test func signsOfLifeKeepTheClaim() async throws {
        let limits = Lockbox.RefreshLimits(takeover: .milliseconds(400))
        try put(Session(token: "a"))
        let other = try store.backend(lockTimeout: .seconds(30)).lockbox()
        let waiting = Protected<Task<Session?, any Error>?>(nil)
        _ = try await refresh(nil, limits) {
            waiting.withLock { $0 = Task { try await refresh(other, limits) } }
            try await Task.sleep(for: .milliseconds(1500))
        }
        #expect(try await waiting.withLock { $0 }?.value?.token == "a+")
        #expect(asked.withLock { $0 } == ["a"])
    }

    /// Nobody else has the value, so it is not given up at once.
    @Test func aStoreThatIsAwayIsTriedAgain() async throws {
        try put(Session(token: "a"))
        let isAway = Protected(false)
        let failing = try store.backend(
            SystemCalls { call in
                call == .fsync && isAway.withLock { $0 } ? .failure(EIO) : nil
            },
            lockTimeout: .seconds(30)
        ).lockbox()
        let result = try await refresh(failing) {
            isAway.withLock { $0 = true }
            Task {
                try await Task.sleep(for: .milliseconds(100))
                isAway.withLock { $0 = false }
            }
        }
        #expect(try result == session && result?.token == "a+")
        try put(Session(token: "b"))
        let limits = Lockbox.RefreshLimits(storing: .milliseconds(50))
        let error = await #expect(throws: Lockbox.RefreshError<Session>.self) {
            try await refresh(failing, limits) { isAway.withLock { $0 = true } }
        }
        #expect(error?.value.token == "b+")
        isAway.withLock { $0 = false }
        #expect(try await refresh()?.token == "b+")
        #expect(asked.withLock { $0 } == ["a", "b", "b, perhaps spent"])
    }

    /// Before the token is used.
    @Test func whatCannotBeStoredIsNotRefreshed() async throws {
        try put(Session(token: "a"))
        let full = try store.backend(
            SystemCalls { $0 == .fsync ? .failure(ENOSPC) : nil }
        ).lockbox()
        await #expect(throws: LockboxError.self) { try await refresh(full) }
        #expect(asked.withLock { $0 } == [])
    }

    @Test func typedKeysHaveTheForm() async throws {
        let key = LockboxKey<Session?>(
            "session",
            options: WriteOptions(accessibility: .always, label: "label")
        )
        try await lockbox.archiveObject(Session(token: "a"), forKey: key)
        let result = try await lockbox.refreshed(key, isFresh: \.isFresh) {
            Session(token: $0.value.token + "+", isFresh: true)
        }
        #expect(result?.token == "a+")
        #expect(try await lockbox.async { try $0.attributes(forKey: key) }?.label == "label")
    }

    /// The values of one run follow each other, whoever refreshes.
    @Test func noTokenIsUsedTwice() async throws {
        try put(Session(token: ""))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<16 {
                let lockbox = try store.backend(lockTimeout: .seconds(30)).lockbox()
                group.addTask {
                    for _ in 0..<10 {
                        _ = try await lockbox.refreshed("session", as: Session.self, isFresh: { _ in false })
                        { old in
                            asked.withLock { $0.append(old.value.token) }
                            return Session(token: old.value.token + "+")
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(asked.withLock { $0.map(\.count) } == Array(0..<160))
    }
}
