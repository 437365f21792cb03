import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// A storage whose every commit meets a conflict, as a hostile server of a cluster can say for ever.
struct EndlessConflictTests {
    private struct Conflicting: WrappingStorage {
        let target = InMemoryStorage()
        let isHostile = Protected(false)

        var limits: StorageLimits {
            StorageLimits(
                maximumRecordLength: .max,
                maximumChanges: 10,
                isTransactional: true,
                isOnThisDevice: true,
                conflictTime: .milliseconds(100)
            )
        }

        func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws
            -> CommitOutcome
        {
            isHostile.withLock { $0 } ? .conflict : target.commit(changes, expecting: expecting)
        }
    }

    @Test func everyCallEnds() throws {
        let storage = Conflicting()
        let backend = SealedBackend(storage: storage, deviceKey: .bytes([UInt8](repeating: 7, count: 32)))
        let lockbox = try backend.lockbox()
        try lockbox.archiveObject("value", forKey: "key")
        try lockbox.archiveObject(
            "value",
            forKey: "expired",
            options: WriteOptions(expires: .at(.distantPast))
        )
        storage.isHostile.withLock { $0 = true }
        expectError(.conflict) { try lockbox.archiveObject("other", forKey: "key") }
        expectError(.conflict) { try lockbox.update("key", as: String.self) { $0 = "other" } }
        expectError(.conflict) { try lockbox.removeAllObjects() }
        expectError(.conflict) { try lockbox.removeExpired() }
        expectError(.conflict) { try backend.setPasscode(.value("1234"), strength: .interactive) }
        expectError(.conflict) { try backend.rotateKeys() }
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == "value")
    }
}
