import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// Other processes that begin a rotation while one is under way, and are killed.
@Suite struct RotationOvertakenTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        for number in 0..<5 { try store.lockbox().archiveObject(number, forKey: "\(number)") }
    }

    /// It does the other one's work too: nobody else will.
    @Test func theOldKeysAreRemovedAllTheSame() throws {
        let others = store.backend()
        var rounds = 0
        let report = try store.backend().rotateKeys { _ in
            rounds += 1
            if rounds == 1 { #expect(throws: Never.self) { try others.keys.rotateKeys(.renew) } }
        }
        #expect(report.isComplete && !report.isPostponed && report.resealed == 10)
        #expect(try !store.openedKeybag().isRotating)
        #expect(try store.openedKeybag().epochs.count == 1)
        for number in 0..<5 { #expect(try store.lockbox().unarchiveObject(forKey: "\(number)") == number) }
    }

    /// It does not go on forever, and says so.
    @Test func whoIsOvertakenAgainAndAgainSaysSo() throws {
        let others = store.backend()
        var rounds = 0
        let report = try store.backend().rotateKeys { _ in
            rounds += 1
            #expect(throws: Never.self) { try others.keys.rotateKeys(.renew) }
        }
        #expect(report.isPostponed && report.notRevoked == 0)
        #expect(rounds < 10)
        #expect(try store.openedKeybag().isRotating)
        #expect(try store.backend().rotateKeys().isComplete)
        #expect(try !store.openedKeybag().isRotating)
    }
}
