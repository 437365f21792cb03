import Foundation
import LockboxTesting
import Testing

@testable import Lockbox
@testable import LockboxCore

/// The claim on a migration, and a run that has lost it.
@Suite struct MigrationClaimTests {
    private let backend = InMemoryBackend()
    private let migration = Migration("m", .string("k1", to: "new1"), .string("k2", to: "new2"))

    init() throws {
        for key in ["k1", "k2"] { try write(key) }
    }

    private func write(_ key: String) throws {
        let item = try StoredItem(
            key: ItemKey(prefix: TestStore.prefix, key: key),
            value: ArchivedValue(data: Data("value".utf8), format: .lockbox2),
            modified: Date()
        )
        try backend.write(item, policy: .replace)
    }

    @discardableResult
    private func claim(
        patience: Duration = .zero,
        _ backend: (any LockboxBackend)? = nil
    ) throws -> MigrationClaim {
        try MigrationClaim.$patience.withValue(patience) {
            try MigrationClaim(
                MigrationRecord.key(ofMigration: "m", prefix: TestStore.prefix),
                backend ?? self.backend,
                now: Date()
            )
        }
    }

    /// Gives signs of work whenever it can.
    private func renewing<Result>(_ body: () throws -> Result) rethrows -> Result {
        try MigrationClaim.$patience.withValue(.zero, operation: body)
    }

    /// The last sign of work.
    private var sign: String? {
        let marker = try? MigrationRecord.key(ofMigration: "m", prefix: TestStore.prefix)
        return marker.flatMap { backend.item(for: $0, now: nil)?.attributes.claim }
    }

    private func names() throws -> Set<String> { try backend.lockbox().allKeys() }

    // MARK: Waiting

    /// Between the look at the record and the change of it.
    @Test func ofTwoThatFindItFreeOneHasIt() throws {
        let isDone = Protected(false)
        let slow = HookedBackend(
            wrapped: backend,
            beforeUpdating: { if isDone.raise() { #expect(throws: Never.self) { try claim() } } }
        )
        let start = ContinuousClock.now
        try claim(patience: .milliseconds(300), slow)
        #expect(.now - start >= .milliseconds(300), "it has waited for the other")
    }

    @Test func whoWasKilledIsNotWaitedForLong() throws {
        try claim()
        let start = ContinuousClock.now
        let report = try MigrationClaim.$patience.withValue(.milliseconds(300)) {
            try backend.lockbox().migrate(migration)
        }
        let waited = ContinuousClock.now - start
        #expect(report.isComplete)
        #expect(waited >= .milliseconds(300) && waited < .seconds(4))
    }

    @Test func whoFailsGivesTheRightBack() throws {
        let failing = FailingBackend(backend)
        // After the claim, the batch and the item.
        failing.fail(.write, after: 1, times: 2, with: LockboxError.notEnoughMemory(bytes: 1))
        expectError(.notEnoughMemory) { try failing.lockbox().migrate(migration) }
        let start = ContinuousClock.now
        let report = try MigrationClaim.$patience.withValue(.seconds(30)) {
            try backend.lockbox().migrate(migration)
        }
        #expect(report.isComplete)
        #expect(.now - start < .seconds(20), "nobody is waited for")
    }

    /// From its last sign of work on, and not only while the record is first read.
    @Test func whoIsAtWorkIsWaitedFor() throws {
        nonisolated(unsafe) let working = try claim()  // used by this thread only
        let (signs, looks) = (30, Protected(0))
        let watched = HookedBackend(
            wrapped: backend,
            beforeReading: { _ in
                if looks.next() <= signs {
                    #expect(throws: Never.self) { try renewing { try working.renew() } }
                }
            }
        )
        // A waiter looks every 2 ms at first, so the signs last longer.
        try claim(patience: .milliseconds(40), watched)
        #expect(looks.withLock { $0 } > signs)
        expectError(.conflict) { try working.release() }
    }

    // MARK: Signs of work

    @Test func aSignOfWorkIsGivenOncePerInterval() throws {
        let working = try claim()
        let first = sign
        try MigrationClaim.$patience.withValue(.seconds(1000)) { try working.renew() }
        #expect(first != nil && sign == first)
        var signs: Set = [first]
        for _ in 1...2 {
            try renewing { try working.renew() }
            #expect(signs.insert(sign).inserted)
        }
    }

    /// Reading is work, too: a source may be large, or slow.
    @Test func whoReadsForLongIsAtWork() throws {
        let beats = Protected<[String: String]>([:])
        let slow = HookedBackend(
            wrapped: backend,
            beforeReading: { key in
                guard key.prefix == TestStore.prefix, beats.withLock({ $0[key.key] }) == nil else { return }
                beats.withLock { $0[key.key] = sign }
            }
        )
        #expect(try renewing { try slow.lockbox().migrate(migration).isComplete })
        let seen = beats.withLock { $0 }
        #expect(seen["k1"] != nil && seen["k2"] != nil && seen["k1"] != seen["k2"], "\(seen)")
    }

    // MARK: Losing the claim

    @Test func whoWasStoppedDoesNotGoOnBesideAnother() throws {
        let stopped = try claim()
        let next = try claim()
        expectError(.conflict) { try renewing { try stopped.renew() } }
        expectError(.conflict) { try stopped.release(done: ["k"]) }
        try next.release(done: ["other"])
        #expect(try claim().done == ["other"])
    }

    /// Another one took over while a batch was being written: nothing is removed then, and no other batch written.
    @Test(arguments: [1, 2]) func whoWasTakenOverFromStops(after items: Int) throws {
        let error = lockboxError {
            try renewing {
                try backend.lockbox().migrate(migration) { progress in
                    guard progress.completed == items else { return }
                    #expect(throws: Never.self) { try claim() }
                }
            }
        }
        #expect(error?.code == .conflict)
        #expect(try names() == ["k1", "k2", "new1", "new2"])
        let report = try MigrationClaim.$patience.withValue(.zero) {
            try backend.lockbox().migrate(migration)
        }
        #expect(report.isComplete)
        #expect(try names() == ["new1", "new2"])
    }

    /// An item after the batch, which would be written alone, is not written either.
    @Test func whoWasTakenOverFromWritesNothingMore() throws {
        let numbers = 1...ItemOperation.batch + 1
        for number in numbers.dropFirst(2) { try write("k\(number)") }
        let migration = Migration("m", items: numbers.map { .string("k\($0)", to: "new\($0)") })
        expectError(.conflict) {
            try renewing {
                try backend.lockbox().migrate(migration) { progress in
                    if progress.completed == 1 { #expect(throws: Never.self) { try claim() } }
                }
            }
        }
        #expect(try names().filter { $0.hasPrefix("new") }.count == ItemOperation.batch)
    }

    /// Stopped after the last look at its claim, while another one migrates the item, and it is removed.
    @Test func whoWasStoppedBringsNothingBack() throws {
        let migration = Migration("m", .string("k1", to: "new1"))
        let stopped = StoppedBackend(
            wrapped: backend,
            key: try ItemKey(prefix: TestStore.prefix, key: "new1")
        ) {
            [backend] in
            #expect(throws: Never.self) {
                #expect(try backend.lockbox().migrate(migration).isComplete)
                try backend.lockbox().removeObject(forKey: "new1")
            }
        }
        MigrationClaim.$patience.withValue(.milliseconds(50)) {
            expectError(.conflict) { try stopped.lockbox().migrate(migration) }
        }
        #expect(try names() == ["k2"])
    }
}

/// Does something else before the first update of an item.
private struct StoppedBackend: WrappingBackend {
    let wrapped: any LockboxBackend
    let key: ItemKey
    let others: @Sendable () -> Void
    private let isOver = Protected(false)

    init(wrapped: any LockboxBackend, key: ItemKey, others: @escaping @Sendable () -> Void) {
        (self.wrapped, self.key, self.others) = (wrapped, key, others)
    }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        if key == self.key, isOver.raise() { others() }
        try wrapped.update(key, now: now, change)
    }
}
