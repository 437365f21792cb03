import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Migrations of a store that is locked, or open in part.
@Suite struct MigrationLockStateTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    @Test func aLockedItemStopsItBeforeAnythingIsWritten() throws {
        let backend = try store.backend().setUp()
        let lockbox = try backend.lockbox()
        try write("a".utf8, "a", .always, in: lockbox)
        try write("b".utf8, "b", .whenUnlocked, in: lockbox)
        try backend.lock()
        let before = try store.snapshot()
        let migration = Migration("m", .string("a"), .string("b"))
        expectError(.interactionNotAllowed) { try lockbox.migrate(migration) }
        let after = try store.snapshot()
        #expect(before.allSatisfy { after[$0.key] == $0.value })
        #expect(try lockbox.allKeys() == ["a", "b"])
        try backend.unlock(.value("1234"))
        #expect(try lockbox.migrate(migration).isComplete)
    }

    /// The new class of one item is open, that of the other is not.
    @Test func aLockedClassStopsItBeforeAnythingIsWritten() throws {
        let backend = try store.backend().setUp()
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let migration = Migration(
            "m",
            from: .lines(at: path),
            .string("A", accessibility: .always),
            .string("B")
        )
        try backend.lock()
        let before = try store.snapshot()
        // Also behind a backend of which nobody knows whether it is locked.
        for backend: any LockboxBackend in [backend, HookedBackend(wrapped: backend)] {
            let lockbox = try backend.lockbox()
            expectError(.interactionNotAllowed) { try lockbox.migrate(migration) }
            #expect(try lockbox.allKeys().isEmpty)
        }
        let lockbox = try backend.lockbox()
        expectError(.interactionNotAllowed) { try lockbox.migrate(migration, dryRun: true) }
        let after = try store.snapshot()
        #expect(before.allSatisfy { after[$0.key] == $0.value })
        #expect(try text(path) == "A=1\nB=2\n")
        try backend.unlock(.value("1234"))
        #expect(try lockbox.migrate(migration).isComplete)
    }

    @Test(arguments: LockState.allCases) func whatIsOpenInEachState(_ state: LockState) throws {
        let backend = try store.backend()
            .setUp(passcode: state == .unprotected ? nil : "1234", items: ["there is a store": .whenUnlocked])
        if state == .locked { try backend.lock() }
        let isFresh = state == .beforeFirstUnlock
        let lockbox = try (isFresh ? store.backend() : backend).lockbox()
        for accessibility in Accessibility.allCases {
            let key = accessibility.rawValue
            let migration = Migration(
                nil,
                from: .items([key: Data("t".utf8)]),
                .string(key, accessibility: accessibility)
            )
            let dry = Result { try lockbox.migrate(migration, dryRun: true).outcomes.map(\.outcome) }
            let write = lockboxError {
                try lockbox.archiveObject("t", forKey: "\(key) 2", accessibility: accessibility)
            }
            let real = Result { try lockbox.migrate(migration).outcomes.map(\.outcome) }
            switch (dry, real) {
            case (.success(let dry), .success(let real)):
                #expect(dry == real)
                #expect((write == nil) == (real == [.migrated]))
                #expect(write == nil || write?.code == .passcodeNotSet)
            case (.failure, .failure): #expect(write?.code == .interactionNotAllowed)
            default: Issue.record("the dry run of \(accessibility) says something else")
            }
        }
    }
}
