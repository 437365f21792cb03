import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The claim is a part of the item, and what others write into it or beside it does no harm.
@Suite struct RefreshClaimTests {
    private typealias Session = Refreshing.Session

    private let store: TestStore
    private let backend: EncryptedFileBackend
    private let lockbox: Lockbox
    private let refreshing = Refreshing()
    private let key: ItemKey

    init() throws {
        store = try TestStore()
        backend = store.backend(lockTimeout: .seconds(30))
        lockbox = try backend.lockbox()
        key = try ItemKey(prefix: TestStore.prefix, key: "session")
        try lockbox.archiveObject(Session(token: "a"), forKey: "session")
    }

    private func refresh(
        _ lockbox: Lockbox? = nil,
        _ limits: Lockbox.RefreshLimits = .init(takeover: .milliseconds(100)),
        whileRefreshing body: @Sendable () async throws -> Void = {}
    ) async throws -> Session? {
        try await refreshing.refresh(lockbox ?? self.lockbox, "", limits, whileRefreshing: body)
    }

    private var asked: [String] { refreshing.asked.withLock { $0 } }

    private var records: Int {
        get throws {
            let storage = FileStorage(directory: store.directory)
            return try storage.namespaces().reduce(0) { count, namespace in
                var count = count
                try storage.forEachName(in: namespace, waitingForCommits: false) { _ in count += 1 }
                return count
            }
        }
    }

    /// Numbers of another key's holder, which would end the process or make it wait for ever. One record is where claims once were.
    @Test(arguments: ["1e300", "100000", "-1", "null", "18446744073709551616"])
    func forgedNumbersDoNoHarm(_ number: String) async throws {
        let beside =
            #"{"version":1,"holder":{"id":1,"beat":18446744073709551615,"takeover":\#(number),"value":"x"}}"#
        let other = try StoredItem(
            key: ItemKey(storedPrefix: "\0refresh\0\(TestStore.prefix)", key: "session"),
            value: ArchivedValue(data: Data(beside.utf8), format: .json),
            accessibility: .always,
            modified: .now
        )
        try await backend.async { try $0.write(ItemChanges(other), to: other.key) }
        for claim in ["1 18446744073709551615 \(number)", number, "", "spent ", "1 1 600000000 ../x"] {
            try await backend.async { [key] in try $0.update(key, now: nil) { try $0?.claimed(claim) } }
            let start = ContinuousClock.now
            _ = try await refresh()
            #expect(ContinuousClock.now - start < .seconds(20), "\(claim)")
            try await lockbox.archiveObject(Session(token: "a"), forKey: "session")
        }
    }

    /// Nothing is left of it when the item has gone, or has another value.
    @Test func theClaimOfADeadHolderGoesWithTheItem() async throws {
        let copy = Protected(store)
        _ = try await refresh {
            let store = try TestStore(copying: store)
            copy.withLock { $0 = store }
        }
        let later = copy.withLock { $0 }
        let lockbox = try later.backend().lockbox()
        #expect(try await lockbox.async { try $0.attributes(forKey: "session") }?.searchable.count == 1)
        try await lockbox.archiveObject(Session(token: "b"), forKey: "session")
        #expect(try await lockbox.async { try $0.attributes(forKey: "session") }?.searchable == [:])
        try await lockbox.removeObject(forKey: "session")
        let storage = FileStorage(directory: later.directory)
        for namespace in try storage.namespaces() {
            try storage.forEachName(in: namespace, waitingForCommits: false) { Issue.record("\($0) is left") }
        }
    }

    @Test func theClaimIsNoOtherRecord() async throws {
        let before = try records
        _ = try await refresh {
            let during = try records
            #expect(during == before)
        }
    }

    /// A removal of the claim's file removes the token.
    @Test func aHolderWhoseFileIsRemovedSaysSo() async throws {
        let error = await #expect(throws: Lockbox.RefreshError<Session>.self) {
            try await refresh { try FileManager.default.removeItem(atPath: store.path("session")) }
        }
        #expect((error?.reason as? LockboxError)?.code == .itemNotFound)
    }

    /// Attributes do not belong to the value, and a copy of them does not outlive it.
    @Test func onlyAValueEndsAClaim() async throws {
        _ = try await refresh {
            try await lockbox.async {
                try $0.setAttributes(WriteOptions(attributes: ["a": "b"]), forKey: "session")
            }
            let attributes = try await lockbox.async { try $0.attributes(forKey: "session") }
            #expect(attributes?.searchable.keys.sorted() == ["a", "lockbox.claim"])
            try await lockbox.update("session", as: Session.self) { _ in }
            #expect(try await lockbox.async { try $0.attributes(forKey: "session") }?.searchable.count == 2)
            try await lockbox.archiveObject(
                Session(token: "b"),
                forKey: "session",
                options: WriteOptions(attributes: .set(attributes?.searchable ?? [:]))
            )
            #expect(
                try await lockbox.async { try $0.attributes(forKey: "session") }?.searchable == ["a": "b"]
            )
        }
    }

    /// A process was stopped while it wrote: the issuer is not asked for what cannot be stored.
    @Test func aLockedPrefixSpendsNoToken() async throws {
        let impatient = store.backend(lockTimeout: .milliseconds(200))
        let lockbox = try Lockbox(keyPrefix: "com.example.process", backend: impatient)
        try await lockbox.archiveObject(Session(token: "a"), forKey: "session")
        let holder = try TestProcess("hold", store.directory, "session")
        holder.waitForOutput()
        let error = await #expect(throws: LockboxError.self) {
            try await refresh(lockbox, .init(storing: .milliseconds(100)))
        }
        #expect(error?.code == .lockTimeout)
        #expect(asked == [])
        #expect(holder.wait() == 0)
    }

    /// The room for the new value is kept before the issuer is asked.
    @Test func aFullDiskSpendsNoToken() async throws {
        let (isFull, written) = (Protected(false), Protected(0))
        let full = try store.backend(
            SystemCalls { call in
                guard call == .write, isFull.withLock({ $0 }) else { return nil }
                return written.next() == 1 ? .failure(ENOSPC) : nil
            }
        ).lockbox()
        _ = try await full.async { try $0.allKeys() }
        isFull.withLock { $0 = true }
        await #expect(throws: LockboxError.self) { try await refresh(full) }
        #expect(asked == [])
        #expect(try FileManager.default.contentsOfDirectory(atPath: store.directory + "/tmp") == [])
    }

    /// This is what a process does before SIGTERM ends it.
    @Test func anEndWaitsForWhatHasBegun() async {
        await #expect(processExitsWith: .success) {
            let refreshing = Refreshing()
            let lockbox = try InMemoryBackend().lockbox()
            try await lockbox.archiveObject(Session(token: "a"), forKey: "session")
            let ended = Protected(false)
            _ = try await refreshing.refresh(lockbox, "", .init()) {
                Task {
                    await Lockbox.endRefreshes()
                    ended.withLock { $0 = true }
                }
                try await Task.sleep(for: .milliseconds(200))
                #expect(!ended.withLock { $0 })
            }
            while !ended.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(1)) }
            try await lockbox.archiveObject(Session(token: "b"), forKey: "session")
            await #expect(throws: CancellationError.self) {
                try await refreshing.refresh(lockbox, "", .init()) {}
            }
            #expect(refreshing.asked.withLock { $0 } == ["a"])
        }
    }
}
