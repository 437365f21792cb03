import Foundation
@_spi(Extensions) import LockboxTesting
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// On a storage as a cluster is one: with limits, without locks, and without a place for the device key.
@Suite struct LimitedStorageTests {
    private let memory = InMemoryStorage()
    private let deviceKey = DeviceKeySource.bytes([UInt8](repeating: 7, count: 32))

    private func backend(
        afterCommit: @escaping @Sendable () -> Void = {},
        afterReading: @escaping @Sendable () -> Void = {}
    ) -> SealedBackend {
        let storage = LimitedStorage(target: memory, afterCommit: afterCommit, afterReading: afterReading)
        return SealedBackend(storage: storage, deviceKey: deviceKey)
    }

    private func lockbox() throws -> Lockbox { try backend().lockbox("p") }

    @Test(arguments: BackendConformance.all)
    func conforms(_ requirement: BackendConformance) throws {
        try requirement.check(
            damage: { try #require($0 as? SealedBackend).damage($1) },
            { SealedBackend(storage: LimitedStorage(target: InMemoryStorage()), deviceKey: deviceKey) }
        )
    }

    /// Other devices share the storage. The items there are not changed.
    @Test(arguments: Accessibility.allCases)
    func aClassThatStaysOnOneDeviceIsRefused(_ accessibility: Accessibility) throws {
        let lockbox = try lockbox()
        guard accessibility.isThisDeviceOnly else {
            return try lockbox.archiveObject("v", forKey: "k", accessibility: accessibility)
        }
        expectError(.notSupported) {
            try lockbox.archiveObject("v", forKey: "k", accessibility: accessibility)
        }
        #expect(try lockbox.unarchiveObject(String.self, forKey: "k") == nil)
        try lockbox.archiveObject("v", forKey: "k")
        expectError(.notSupported) {
            try lockbox.setAttributes(WriteOptions(accessibility: accessibility), forKey: "k")
        }
        #expect(
            try lockbox.unarchiveItem(String.self, forKey: "k")?.attributes.accessibility == .whenUnlocked
        )
    }

    /// Another writer changes one of its items after it has been read.
    @Test func aBatchIsOneCommitAlsoAfterAConflict() throws {
        let keys = ["a", "b", "c"]
        let other = try lockbox()
        for key in keys { try other.archiveObject("old", forKey: key) }
        let (isChanged, commits) = (Protected(false), Protected(0))
        let lockbox = try backend(
            afterCommit: { _ = commits.next() },
            afterReading: {
                guard isChanged.raise() else { return }
                #expect(throws: Never.self) { try other.archiveObject("theirs", forKey: "a") }
            }
        ).lockbox("p")
        try lockbox.batch { batch in for key in keys { try batch.archiveObject("new", forKey: key) } }
        #expect(commits.withLock { $0 } == 2, "the conflict, and one for all")
        #expect(try lockbox.unarchiveObjects(forKeys: keys) == ["a": "new", "b": "new", "c": "new"])
    }

    @Test func aBatchIsDividedIntoCommitsThatAreAllowed() throws {
        let lockbox = try lockbox()
        let sizes =
            [60_000, 60_000, 60_000, 100_000, 10, 10, 100_000, 100_000] + Array(repeating: 100, count: 25)
        for round in 0..<2 {
            try lockbox.batch { batch in
                for (number, size) in sizes.enumerated() {
                    try batch.archiveObject(Data(repeating: UInt8(round), count: size), forKey: "\(number)")
                }
            }
        }
        for (number, size) in sizes.enumerated() {
            #expect(try lockbox.unarchiveObject(forKey: "\(number)") == Data(repeating: 1, count: size))
        }
        _ = try backend().rotateKeys()
        #expect(try lockbox.allKeys().count == sizes.count)
    }

    @Test func theLargestValueFitsWithTheLongestAttributes() throws {
        let limit = backend().maximumValueSize
        #expect(limit > 50_000)
        let lockbox = try lockbox()
        let long = String(repeating: "x", count: ItemAttributes.maximumTextLength)
        let key = String(repeating: "k", count: 4096)
        let value = Data(repeating: 1, count: limit)
        try lockbox.archiveObject(
            value,
            forKey: key,
            options: WriteOptions(label: .set(long), comment: .set(long))
        )
        #expect(try lockbox.unarchiveObject(forKey: key) == value)
        let tooLarge = Data(repeating: 1, count: LimitedStorage.maximumLength)
        expectError(.valueTooLarge) { try lockbox.archiveObject(tooLarge, forKey: key) }
        #expect(try lockbox.unarchiveObject(forKey: key) == value)
    }

    @Test func theDeviceKeyIsRefused() throws {
        let stored = try SealedBackend(storage: LimitedStorage(target: memory)).lockbox("p")
        expectError(.invalidDeviceKey) { try stored.archiveObject("value", forKey: "key") }
        #expect(
            try memory.read([RecordName(name: "device-key"), RecordName(name: "keybag")], maximum: 9999)
                .isEmpty
        )
        try lockbox().archiveObject("value", forKey: "key")
        expectError(.invalidDeviceKey) { try stored.unarchiveObject(String.self, forKey: "key") }
        expectError(.invalidDeviceKey) { try backend().rotateKeys(newDeviceKey: .stored) }
        #expect(try memory.read([RecordName(name: "device-key")], maximum: 9999).isEmpty)
        #expect(try lockbox().unarchiveObject(forKey: "key") == "value")
    }

    /// Nothing keeps another instance from replacing the keybag between two stages of a rotation.
    @Test(arguments: 1...2)
    func anotherRotationInBetweenLosesNoKeys(_ stage: Int) throws {
        try lockbox().archiveObject("old", forKey: "old")
        let (commits, backend, lockbox) = (Protected(0), backend(), try lockbox())
        let rotating = self.backend {
            guard
                commits.withLock({ commits in
                    commits += 1
                    return commits == stage
                })
            else { return }
            do {
                _ = try backend.rotateKeys()
                try lockbox.archiveObject("new", forKey: "new")
            } catch { Issue.record(error) }
        }
        _ = try rotating.rotateKeys()
        #expect(commits.withLock { $0 } >= stage)
        for instance in [try self.lockbox(), lockbox, try rotating.lockbox("p")] {
            #expect(try instance.unarchiveObject(forKey: "old") == "old")
            #expect(try instance.unarchiveObject(forKey: "new") == "new")
        }
    }

    // MARK: Records that are read together

    /// A page's items may be sealed with keys that are gone before they are opened.
    @Test func aListBesideTwoRotations() throws {
        let keys = (0..<20).map { "\($0)" }
        try lockbox().batch { for key in keys { try $0.archiveObject("value", forKey: key) } }
        let (pages, other) = (Protected(0), backend())
        let reading = backend(afterReading: {
            // The first reading is that of one item and the keybag.
            guard pages.next() == 2 else { return }
            do { _ = try other.rotateKeys() } catch { Issue.record(error) }
        })
        let lockbox = try reading.lockbox("p")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "0") == "value")
        _ = try other.rotateKeys()
        #expect(try lockbox.allKeys().sorted() == keys.sorted())
        #expect(pages.withLock { $0 } == 4)
    }

    /// The commit expects what was read together.
    @Test func aBatchKeepsWhatAnotherWriterChanges() throws {
        let lockbox = try lockbox()
        for key in ["a", "b"] { try lockbox.archiveObject("old", forKey: key) }
        let readings = Protected(0)
        let batching = backend(afterReading: {
            guard readings.next() == 1 else { return }
            do { try lockbox.setAttributes(WriteOptions(label: .set("new")), forKey: "a") } catch {
                Issue.record(error)
            }
        })
        try batching.lockbox("p").batch { batch in
            for key in ["a", "b"] { try batch.archiveObject("new", forKey: key) }
        }
        let item = try lockbox.unarchiveItem(String.self, forKey: "a")
        #expect(item?.value == "new" && item?.attributes.label == "new")
        #expect(readings.withLock { $0 } == 2)
    }

    /// Runs `body` on a store of its own again and again, with `other` before its first call of the storage, then before the second,
    /// up to the last.
    private func atEveryCall(
        _ other: @escaping @Sendable (Lockbox) throws -> Void,
        _ body: (SealedBackend, _ isRaised: () -> Void, _ hasHappened: () -> Bool, SealedBackend) throws ->
            Void
    ) throws {
        for number in 1... {
            let memory = InMemoryStorage()
            let others = SealedBackend(storage: memory, deviceKey: deviceKey)
            let interruption = Interruption(at: number) {
                #expect(throws: Never.self) { try other(others.lockbox()) }
            }
            let storage = InterruptedStorage(target: memory, interruption: interruption)
            let reader = SealedBackend(storage: memory, deviceKey: deviceKey)
            let own = SealedBackend(storage: storage, deviceKey: deviceKey)
            try body(own, interruption.raise, { interruption.hasHappened }, reader)
            if !interruption.hasHappened { return #expect(number > 2) }
        }
    }

    /// One keybag counts.
    @Test func ofTwoThatMakeTheStoreBothKeepTheirItems() throws {
        try atEveryCall({ try $0.archiveObject("v", forKey: "other") }) { own, raise, hasHappened, reader in
            raise()
            try own.lockbox().archiveObject("v", forKey: "own")
            let found = try reader.lockbox().allKeys()
            #expect(found == (hasHappened() ? ["own", "other"] : ["own"]))
        }
    }

    @Test func whatIsWrittenMeanwhileIsNotRemovedAsExpired() throws {
        try atEveryCall({ try $0.archiveObject("new", forKey: "k") }) { own, raise, hasHappened, reader in
            let expired = WriteOptions(expires: .at(.distantPast))
            try own.lockbox().archiveObject("old", forKey: "k", options: expired)
            raise()
            try own.removeExpired(prefix: TestStore.prefix, now: Date())
            #expect(try reader.lockbox().unarchiveObject(forKey: "k") == (hasHappened() ? "new" : nil))
        }
    }

    /// The storage's limit holds, however many items there are.
    @Test func noCommitHasMoreChangesThanTheStorageAllows() throws {
        let storage = NarrowStorage()
        let backend = SealedBackend(storage: storage, deviceKey: deviceKey)
        for number in 0..<5 {
            let expires: Expiry = number < 3 ? .at(.distantPast) : .never
            try backend.lockbox().archiveObject(
                "v",
                forKey: "\(number)",
                options: WriteOptions(expires: expires)
            )
        }
        #expect(try backend.removeExpired(prefix: TestStore.prefix, now: Date()) == 3)
        for number in 0..<3 { try backend.lockbox().archiveObject("v", forKey: "\(number)") }
        try backend.removeAll(prefix: TestStore.prefix)
        #expect(try backend.attributes(prefix: TestStore.prefix, now: nil).isEmpty)
    }
}

/// Takes no more than two changes at once.
private struct NarrowStorage: WrappingStorage {
    let target = InMemoryStorage()

    var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: .max,
            maximumChanges: 2,
            isTransactional: true,
            isOnThisDevice: true
        )
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) throws -> CommitOutcome {
        try #require(changes.count <= limits.maximumChanges)
        return target.commit(changes, expecting: expecting)
    }
}
