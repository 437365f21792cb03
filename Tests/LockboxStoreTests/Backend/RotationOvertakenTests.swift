import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

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
            if rounds == 1 { #expect(throws: Never.self) { try others.keyChanges.rotateKeys(.renew) } }
        }
        #expect(report.isComplete && !report.isPostponed && report.resealedCount == 10)
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
            #expect(throws: Never.self) { try others.keyChanges.rotateKeys(.renew) }
        }
        #expect(report.isPostponed && report.unrevokedCount == 0 && !report.isComplete)
        #expect(rounds < 10)
        #expect(try store.openedKeybag().isRotating)
        #expect(try store.backend().rotateKeys().isComplete)
        #expect(try !store.openedKeybag().isRotating)
    }

    /// Whatever prevents it: the new passcode is in effect, and the items have the old keys.
    @Test func whatEndsTheResealingLeavesItIncomplete() throws {
        let storage = UnlistedStorage()
        let backend = SealedBackend(storage: storage)
        try Lockbox(keyPrefix: "p", backend: backend).archiveObject(1, forKey: "k")
        storage.isListed.withLock { $0 = false }
        let report = try backend.setPasscode(.value("1"), strength: .interactive)
        #expect(report.isPostponed && !report.isComplete)
        storage.isListed.withLock { $0 = true }
        #expect(try backend.rotateKeys().isComplete)
        let later = try backend.changePasscode(to: .value("2"), strength: .interactive, resealing: false)
        #expect(later.isPostponed && later.isComplete, "as the caller wanted it")
    }
}

/// Its lists fail with an error of its own.
private struct UnlistedStorage: WrappingStorage {
    struct Refusal: Error {}

    let target = InMemoryStorage()
    let isListed = Protected(true)

    func begin(_ call: StorageCall) throws {
        if case .list = call, !isListed.withLock({ $0 }) { throw Refusal() }
    }
}
