import Foundation
import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxMigration

/// Who may do a migration, and what becomes of a run that may not any more.
@Suite struct MigrationClaimTests {
    private let backend = InMemoryBackend()
    private let migration = Migration("m", .string("k1", to: "new1"), .string("k2", to: "new2"))

    init() throws {
        for key in ["k1", "k2"] {
            let item = try StoredItem(
                key: ItemKey(prefix: TestStore.prefix, key: key),
                value: ArchivedValue(data: Data("value".utf8), format: .lockbox2),
                modified: Date()
            )
            try backend.write(item, policy: .replace)
        }
    }

    private func lockbox(_ backend: (any LockboxBackend)? = nil) throws -> Lockbox {
        try Lockbox(keyPrefix: TestStore.prefix, backend: backend ?? self.backend)
    }

    @discardableResult
    private func claim(_ patience: Duration, _ backend: (any LockboxBackend)? = nil) throws -> MigrationClaim
    {
        try MigrationClaim.$patience.withValue(patience) {
            try MigrationClaim(
                MigrationRecord.key(ofMigration: "m", prefix: TestStore.prefix),
                backend ?? self.backend,
                now: Date()
            )
        }
    }

    private func names() throws -> Set<String> { try lockbox().allKeys() }

    /// Between the look at the record and the change of it.
    @Test func ofTwoThatFindItFreeOneHasIt() throws {
        let isDone = Protected(false)
        let slow = HookedBackend(
            wrapped: backend,
            beforeUpdate: {
                let isFirst = isDone.withLock { isDone in
                    defer { isDone = true }
                    return !isDone
                }
                if isFirst { #expect(throws: Never.self) { try claim(.zero) } }
            }
        )
        let start = ContinuousClock.now
        try claim(.milliseconds(300), slow)
        #expect(.now - start >= .milliseconds(300), "it has waited for the other")
    }

    /// Another one took over while a batch was being written: nothing is removed then, and no other batch written.
    @Test(arguments: [1, 2]) func whoWasTakenOverFromStops(after items: Int) throws {
        let error = lockboxError {
            try lockbox().migrate(migration) { progress in
                guard progress.completed == items else { return }
                #expect(throws: Never.self) { try claim(.zero) }
                usleep(1_050_000)  // it looks once in a second
            }
        }
        #expect(error?.code == .conflict)
        #expect(try names() == ["k1", "k2", "new1", "new2"])
        let report = try MigrationClaim.$patience.withValue(.milliseconds(20)) {
            try lockbox().migrate(migration)
        }
        #expect(report.isComplete)
        #expect(try names() == ["new1", "new2"])
    }

    @Test func whoFailsGivesTheRightBack() throws {
        let failing = FailingBackend(backend)
        failing.fail(.write, with: LockboxError.notEnoughMemory(bytes: 1))
        expectError(.notEnoughMemory) { try lockbox(failing).migrate(migration) }
        let start = ContinuousClock.now
        let report = try MigrationClaim.$patience.withValue(.seconds(30)) {
            try lockbox().migrate(migration)
        }
        #expect(report.isComplete)
        #expect(.now - start < .seconds(20), "nobody is waited for")
    }

    /// Reading is work, too: a source may be large, or slow.
    @Test func whoReadsForLongIsAtWork() throws {
        let marker = try MigrationRecord.key(ofMigration: "m", prefix: TestStore.prefix)
        let beats = Protected<[UInt64]>([])
        let slow = HookedBackend(
            wrapped: backend,
            beforeRead: { [backend] key in
                guard key.key.hasPrefix("k"), beats.withLock({ $0.count < 3 }) else { return }
                let record = try? MigrationRecord(backend.item(for: marker, now: nil)?.value, marker)
                guard let runner = record?.runner else { return }
                beats.withLock { $0.append(runner.beat) }
                usleep(1_050_000)
            }
        )
        #expect(try lockbox(slow).migrate(migration).isComplete)
        #expect(beats.withLock { $0.first == 0 && $0.contains(1) }, "\(beats.withLock { $0 })")
    }

    /// And not only while the record is first read.
    @Test func whoIsAtWorkIsWaitedForFromItsLastSignOn() throws {
        let working = try claim(.zero)
        let isOver = Protected(false)
        let waiting = Thread {
            _ = try? claim(.milliseconds(1500))
            isOver.withLock { $0 = true }
        }
        waiting.start()
        usleep(1_100_000)
        try working.renew()
        usleep(1_000_000)
        #expect(!isOver.withLock { $0 })
        while !isOver.withLock({ $0 }) { usleep(10_000) }
        expectError(.conflict) { try working.release() }
    }
}

/// Does something before each update, and before it reads an item.
private struct HookedBackend: LockboxBackend {
    let wrapped: InMemoryBackend
    var beforeUpdate: @Sendable () -> Void = {}
    var beforeRead: @Sendable (ItemKey) -> Void = { _ in }

    func item(for key: ItemKey, now: Date?) -> StoredItem? {
        beforeRead(key)
        return wrapped.item(for: key, now: now)
    }

    func attributes(prefix: String, now: Date?) -> [ItemKey: ItemAttributes] {
        wrapped.attributes(prefix: prefix, now: now)
    }

    func prefixes() -> Set<String> { wrapped.prefixes() }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        beforeUpdate()
        try wrapped.update(key, now: now, change)
    }

    func remove(_ key: ItemKey) { wrapped.remove(key) }
}
