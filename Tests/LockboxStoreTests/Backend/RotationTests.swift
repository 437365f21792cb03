import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// New keys for every class, while others read and write.
@Suite(.serialized, .timeLimit(.minutes(10))) struct RotationTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private static let prefixes = [TestStore.prefix, "com.example.other"]

    /// Five items in each of two prefixes, one of them expired.
    private func prepare(passcode: String? = nil) throws -> EncryptedFileBackend {
        let backend = try store.backend().setUp(passcode: passcode)
        for prefix in Self.prefixes {
            let lockbox = try backend.lockbox(prefix)
            for (index, accessibility) in Accessibility.allCases.dropLast(2).enumerated() {
                try lockbox.archiveObject(
                    "of \(index)",
                    forKey: "\(index)",
                    options: WriteOptions(
                        accessibility: accessibility,
                        expires: index == 4 ? .at(.distantPast) : .never,
                        label: "L"
                    )
                )
            }
        }
        return backend
    }

    private func epochs() throws -> Set<UInt32> {
        Set(
            try store.snapshot().filter { $0.key.hasPrefix("items/") && !$0.key.hasSuffix("lock") }
                .compactMap { $0.value.bytes }
                .map { UInt32($0[8]) }
        )
    }

    private func keybag() throws -> Keybag { try store.openedKeybag() }

    /// It can be read by nobody, but it is there.
    @Test func anItemThatIsNotSafeToUseIsReported() throws {
        let backend = try prepare()
        let path = try store.path("1", prefix: Self.prefixes[0])
        chmod(path, 0o644)
        let unreadable = try backend.rotateKeys().unreadableItems
        #expect(unreadable.map(\.location) == [path] && unreadable[0].error.code == .unsafePermissions)
        #expect(try keybag().isRotating)
        chmod(path, 0o600)
        #expect(try backend.rotateKeys().unrevokedCount == 1)
        try backend.acceptItem(record: unreadable[0].record)
        #expect(try backend.rotateKeys().isComplete)
        #expect(try store.backend().allItems().count == 10)
    }

    /// No item needs the old keys for it, whatever keys its header names.
    @Test func aDamagedHeaderIsReportedAndKeepsNoKeys() throws {
        let backend = try prepare()
        let path = try store.path("1", prefix: Self.prefixes[0])
        for epoch: UInt8 in [1, 9] {
            var damaged = try readBytes(path)
            (damaged[8], damaged[40]) = (epoch, damaged[40] ^ 1)
            try overwrite(path, damaged)
            let report = try backend.rotateKeys()
            #expect(report.unreadableItems.map(\.location) == [path] && report.unrevokedCount == 0)
            #expect(try !keybag().isRotating)
        }
        #expect(try store.backend().lockbox(Self.prefixes[0]).list().items.count == 3)
    }

    @Test(arguments: [nil, "1234"]) func everyItemGetsNewKeys(_ passcode: String?) throws {
        let backend = try prepare(passcode: passcode)
        let before = try backend.allItems()
        let oldKeys = try backend.keyStore.currentKeyring()
        var progress: [StoreProgress] = []
        let report = try backend.rotateKeys { progress.append($0) }
        #expect(report.resealedCount == 10)
        #expect(report.isComplete)
        // Of two prefixes, each a batch.
        #expect(progress == [5, 10].map { StoreProgress(completed: $0, total: 10) })
        let epoch = oldKeys.epoch + 1
        #expect(try epochs() == [epoch])
        #expect(try backend.allItems() == before)
        let other = store.backend()
        if let passcode { try other.unlock(.value(passcode)) }
        #expect(try other.allItems() == before)
        #expect(try !keybag().isRotating)

        let newKeys = try backend.keyStore.currentKeyring()
        for accessibility in Accessibility.allCases.dropLast() {
            let old = try oldKeys.key(.classKey(accessibility), epoch: oldKeys.epoch).withBytes { Array($0) }
            let new = try newKeys.key(.classKey(accessibility), epoch: epoch).withBytes { Array($0) }
            #expect(old != new)
            #expect(throws: RecordError.unknownKey) {
                try newKeys.key(.classKey(accessibility), epoch: oldKeys.epoch)
            }
        }
        #expect(try backend.rotateKeys().resealedCount == 10, "again")
        #expect(try epochs() == [epoch + 1])
    }

    @Test func aLockedStoreIsNotRotated() throws {
        let backend = try prepare(passcode: "1234")
        try backend.lock()
        let before = try store.snapshot()
        expectError(.interactionNotAllowed) { try backend.rotateKeys() }
        #expect(try store.snapshot() == before)
        #expect(try store.backend().lockState == .beforeFirstUnlock)
    }

    @Test func anUnreadableItemKeepsTheOldKeysAlive() throws {
        let backend = try prepare()
        let intact = try readBytes(store.path("2", prefix: "com.example.other"))
        let path = try store.damage("2", prefix: "com.example.other")
        let report = try backend.rotateKeys()
        #expect(report.resealedCount == 9)
        #expect(report.unreadableItems.map(\.location) == [path])
        #expect(report.unreadableItems.first?.error.code == .authenticationFailed)
        #expect(!report.isComplete)
        #expect(try keybag().isRotating)

        try overwrite(path, intact)
        let other = try store.backend().lockbox("com.example.other")
        expectError(.corrupt) { try other.unarchiveObject(String.self, forKey: "2") }
        try backend.acceptItem(record: report.unreadableItems[0].record)
        #expect(try other.unarchiveObject(forKey: "2") == "of 2", "restored, and accepted by name")
        let carriedOn = try backend.rotateKeys()
        #expect(carriedOn.resealedCount == 10)
        #expect(carriedOn.isComplete)
        #expect(try epochs() == [3])
        #expect(try other.unarchiveObject(forKey: "2") == "of 2")
    }

    /// An earlier file of an item, as from a copy of the store, has come back since it was sealed anew.
    @Test func anItemUnderOldKeysKeepsThemAlive() throws {
        let backend = try prepare()
        let path = try store.path("2", prefix: Self.prefixes[1])
        let old = try readBytes(path)
        let report = try backend.rotateKeys { progress in
            if progress.completed == progress.total { try? overwrite(path, old) }
        }
        #expect(report.unreadableItems.map(\.location) == [path])
        let other = try store.backend().lockbox(Self.prefixes[1])
        #expect(try other.unarchiveObject(forKey: "2") == "of 2")
        #expect(try backend.rotateKeys().isComplete)
        #expect(try other.unarchiveObject(forKey: "2") == "of 2")
    }

    /// A commit that began before the rotation may use the old keys.
    @Test func anItemThatIsBeingWrittenIsResealed() throws {
        _ = try prepare()
        let (group, report) = (DispatchGroup(), Protected<RotationReport?>(nil))
        let rotation = Interruption(at: 1) { [store] in
            Thread.detachNewThread(in: group) {
                let rotated = try? store.backend(lockTimeout: .seconds(30)).rotateKeys()
                report.withLock { $0 = rotated }
            }
            while (try? store.openedKeybag().isRotating) != true { usleep(1000) }
            // A rotation that does not wait has listed the items by then.
            usleep(200_000)
        }
        let writing = store.backend(
            SystemCalls { call in
                if call == .rename { rotation.call() }
                return nil
            }
        )
        rotation.raise()
        try writing.lockbox().archiveObject("v", forKey: "written")
        group.wait()
        #expect(report.withLock { $0?.isComplete == true && $0?.resealedCount == 11 })
        #expect(try store.backend().lockbox().unarchiveObject(forKey: "written") == "v")
    }

    @Test func everyRewriteOfTheKeybagIsCounted() throws {
        let backend = try prepare(passcode: "1234")
        var generations = [try keybag().generation]
        for rewrite in [
            { try backend.changePasscode(to: .value("5678"), strength: .interactive) },
            { try backend.removePasscode() }, { try backend.rotateKeys() },
        ] as [() throws -> RotationReport] {
            #expect(try rewrite().isComplete)
            generations.append(try keybag().generation)
        }
        #expect(
            generations == [4, 8, 12, 16],
            "an epoch is prepared, begins, closes those before, and is the only one left"
        )
    }

    /// A backend that was open before, as another process would be.
    @Test func whoWasOpenBeforeLosesNothing() throws {
        let backend = try prepare(passcode: "1234")
        let other = store.backend()
        try other.unlock(.value("1234"))
        let lockbox = try other.lockbox(Self.prefixes[0])
        #expect(try lockbox.unarchiveObject(forKey: "0") == "of 0")
        try backend.rotateKeys()
        try lockbox.archiveObject("new", forKey: "new")
        #expect(try lockbox.unarchiveObject(forKey: "0") == "of 0")
        #expect(try epochs() == [3])
        #expect(try backend.item(for: ItemKey(prefix: Self.prefixes[0], key: "new"), now: Date()) != nil)

        try other.lock()
        try backend.rotateKeys()
        #expect(try lockbox.unarchiveObject(forKey: "1") == "of 1", "it still has what opens this class")
        try lockbox.archiveObject("x", forKey: "1", accessibility: .afterFirstUnlock)
        expectError(.interactionNotAllowed) { try lockbox.unarchiveObject(String.self, forKey: "0") }
        try other.unlock(.value("1234"))
        #expect(try lockbox.unarchiveObject(forKey: "0") == "of 0")
        #expect(try lockbox.unarchiveObject(forKey: "1") == "x")
    }

    @Test func othersWriteMeanwhile() throws {
        let backend = try prepare()
        let writer = try store.backend().lockbox(Self.prefixes[0])
        var round = 0
        try backend.rotateKeys { _ in
            round += 1
            let written = lockboxError {
                try writer.archiveObject(round, forKey: "counter")
                try writer.archiveObject(round, forKey: "new \(round)")
            }
            #expect(written == nil)
        }
        let reopened = try store.backend().lockbox(Self.prefixes[0])
        #expect(try reopened.unarchiveObject(forKey: "counter") == round)
        for number in 1...round { #expect(try reopened.unarchiveObject(forKey: "new \(number)") == number) }
        #expect(try epochs() == [2])
    }

    /// Killed before its N-th call that changes the disk, and then once more while it is carried on.
    @Test("Promise 2: a killed rotation loses nothing, and is carried on")
    func killedInTheMiddle() throws {
        var number = Interruption.start
        var status: Int32 = -SIGKILL
        while status == -SIGKILL {
            number += Interruption.stride
            let cell = try RotationTests()
            let before = try cell.prepare().allItems()
            status = try TestProcess("die-in", cell.store.directory, "\(number)", "rotate").wait()
            #expect(try cell.store.backend().allItems() == before, "call \(number)")
            _ = try TestProcess("die-in", cell.store.directory, "\(number / 2)", "rotate").wait()
            #expect(try cell.store.backend().allItems() == before, "call \(number), then \(number / 2)")
            #expect(try cell.store.backend().rotateKeys().isComplete)
            #expect(try cell.store.backend().allItems() == before)
            #expect(try cell.epochs().count == 1)
            #expect(try !cell.keybag().isRotating)
        }
        #expect(status == 0)
        #expect(number > 80)
    }
}
