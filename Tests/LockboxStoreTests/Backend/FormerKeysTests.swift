import Foundation
import Testing

@testable import Lockbox
@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Promise 15: former keys open what was there when they were replaced, and make nothing.
@Suite struct FormerKeysTests {
    private let store: TestStore

    init() throws { store = try TestStore() }

    private func open(_ passcode: String, of store: TestStore? = nil) throws -> EncryptedFileBackend {
        let backend = (store ?? self.store).backend()
        try backend.unlock(.value(passcode))
        return backend
    }

    // MARK: Items that come later

    /// What the former owner puts in an item's place before the change, and takes away after it.
    enum Before: CaseIterable {
        case nothing, fifo, folder, link, worldWritablePrefix, closedPrefix

        func put(at path: String) throws {
            switch self {
            case .nothing: break
            case .fifo: try #require(mkfifo(path, 0o600) == 0)
            case .folder: try #require(mkdir(path, 0o700) == 0)
            case .link: try #require(symlink("/dev/null", path) == 0)
            case .worldWritablePrefix: chmod(Path.parent(of: path), 0o777)
            case .closedPrefix: chmod(Path.parent(of: path), 0)
            }
        }

        func takeAway(from path: String) throws {
            switch self {
            case .nothing: break
            case .fifo, .folder, .link: try FileManager.default.removeItem(atPath: path)
            case .worldWritablePrefix, .closedPrefix: chmod(Path.parent(of: path), 0o700)
            }
        }
    }

    enum Change: CaseIterable {
        case firstPasscode, passcode, passcodeForLater, rotation

        func make(_ backend: EncryptedFileBackend) throws {
            switch self {
            case .firstPasscode: try backend.setPasscode(.value("new"), strength: .interactive)
            case .passcode: try backend.changePasscode(to: .value("new"), strength: .interactive)
            case .passcodeForLater:
                try backend.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
            case .rotation: try backend.rotateKeys()
            }
        }
    }

    @Test(arguments: Before.allCases, Change.allCases)
    func nothingThatIsPlantedLaterOpens(_ before: Before, _ change: Change) throws {
        let passcode = change == .firstPasscode ? nil : "1234"
        let owner = try store.backend().setUp(passcode: passcode, items: ["k": .whenUnlocked])
        let former = try FormerOwner(store, passcode: passcode)
        let path = try store.path("planted")
        try before.put(at: path)
        try change.make(owner)
        try before.takeAway(from: path)
        for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock, .always] {
            try former.plant("forged", at: "planted", accessibility)
            let secret = change == .rotation ? "1234" : "new"
            try expectRefusal(owner, open(secret))
            try owner.rotateKeys()
            try expectRefusal(owner, open(secret))
        }
    }

    private func expectRefusal(_ readers: EncryptedFileBackend...) throws {
        let path = try store.path("planted")
        for reader in readers {
            let lockbox = try reader.lockbox()
            expectError(.corrupt) { try lockbox.unarchiveObject(String.self, forKey: "planted") }
            expectError(.corrupt) { try lockbox.update("planted", as: String.self) { _ in } }
            expectError(.corrupt) { try lockbox.moveObject(forKey: "planted", toKey: "moved") }
            let list = try lockbox.list()
            #expect(list.items["planted"] == nil && list.unreadable.contains { $0.location == path })
            #expect(try reader.verify().findings.contains { $0.location == path && $0.kind == .damaged })
            let backup = Path.parent(of: store.directory) + "/\(UInt64.random(in: .min ... .max))"
            let key = BackupKey()
            let report = try reader.exportBackup(to: backup, for: .publicKeys([key.publicKey]))
            #expect(report.findings.contains { $0.location == path })
        }
    }

    /// The former owner makes a whole prefix.
    @Test func noPrefixIsMadeLater() throws {
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        let former = try FormerOwner(store, passcode: "1234")
        try owner.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        try former.plant("forged", at: "k", prefix: "com.example.forged")
        #expect(try owner.prefixes { _ in } == [TestStore.prefix])
        #expect(try owner.lockbox("com.example.forged").list().items.isEmpty)
    }

    /// An item of a low class says nothing of the next value's.
    @Test func whatIsPlantedChoosesNoClass() throws {
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        let former = try FormerOwner(store, passcode: "1234")
        try owner.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        try former.plant("forged", at: "k", .always)
        try owner.lockbox().archiveObject("next", forKey: "k")
        #expect(try owner.lockbox().attributes(forKey: "k")?.accessibility == .whenUnlocked)
    }

    /// The bytes of an item that is left for later count, and not its name.
    @Test func anEarlierVersionDoesNotComeBack() throws {
        let owner = try store.backend().setUp(items: ["k": .always])
        let (path, earlier) = (try store.path("k"), try readBytes(store.path("k")))
        try owner.lockbox().archiveObject("later", forKey: "k", accessibility: .whenUnlocked)
        try owner.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        #expect(try owner.lockbox().unarchiveObject(forKey: "k") == "later")
        try overwrite(path, earlier)
        expectError(.corrupt) { try owner.lockbox().unarchiveObject(String.self, forKey: "k") }
        expectError(.corrupt) { try open("new").lockbox().attributes(forKey: "k") }
    }

    /// An attacker with a device key from before the first passcode may have sealed it, also with a class that needs an unlock now.
    @Test func nothingFromBeforeTheFirstSlotIsByTheOwner() throws {
        let owner = try store.backend().setUp(passcode: nil, items: ["k": .whenUnlocked, "a": .always])
        try owner.setPasscode(.value("new"), strength: .interactive, resealing: false)
        let lockbox = try open("new").lockbox()
        for key in ["k", "a"] { #expect(try lockbox.attributes(forKey: key)?.origin.proof == .missing) }
        try lockbox.archiveObject("next", forKey: "k")
        #expect(try lockbox.attributes(forKey: "k")?.origin.proof == .unlocked)
        expectError(.invalidAttribute) { try lockbox.archiveObject("next", forKey: "a") }
    }

    // MARK: Items that were there

    @Test(arguments: [nil, "1234"]) func itemsThatAreLeftForLater(_ passcode: String?) throws {
        let keys = ["read", "written", "updated", "moved", "removed", "last"]
        let owner = try store.backend().setUp(passcode: passcode)
        let lockbox = try owner.lockbox()
        let accessibility = passcode == nil ? Accessibility.whenUnlocked : .afterFirstUnlock
        for key in keys { try lockbox.archiveObject("old", forKey: key, accessibility: accessibility) }
        for secret in ["a", "b"] {
            let report =
                try passcode == nil && secret == "a"
                ? owner.setPasscode(.value(secret), strength: .interactive, resealing: false)
                : owner.changePasscode(to: .value(secret), strength: .interactive, resealing: false)
            #expect(report.isPostponed && report.isComplete && report.unrevokedCount == 0)
        }
        let other = try open("b").lockbox()
        for key in keys { #expect(try other.unarchiveObject(forKey: key) == "old") }
        #expect(try other.list().items.count == keys.count)
        try other.archiveObject("new", forKey: "written")
        try other.update("updated", as: String.self) { $0? += "er" }
        try other.moveObject(forKey: "moved", toKey: "there")
        try other.removeObject(forKey: "removed")
        #expect(try owner.verify().findings.isEmpty)
        #expect(try owner.rotateKeys().isComplete)
        #expect(try store.openedKeybag().epochs.count == 1)
        let expected = ["read": "old", "written": "new", "updated": "older", "there": "old", "last": "old"]
        #expect(try Set(other.allKeys()) == Set(expected.keys))
        for (key, value) in expected { #expect(try other.unarchiveObject(forKey: key) == value) }
        #expect(try manifests() == [])
    }

    private func manifests() throws -> [String] {
        let names = try? FileManager.default.contentsOfDirectory(atPath: "\(store.directory)/items/manifest")
        return names?.filter { $0 != "lock" } ?? []
    }

    /// A commit that compared the keybag before the change renames its file after it.
    @Test func anItemThatIsBeingWrittenOpens() throws {
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        let (group, report) = (DispatchGroup(), Protected<RotationReport?>(nil))
        let change = Interruption(at: 1) { [store] in
            let before = try? store.openedKeybag().epoch
            Thread.detachNewThread(in: group) {
                let other = store.backend(lockTimeout: .seconds(30))
                _ = try? other.unlock(.value("1234"))
                let new = PasscodeSource.value("new")
                let made = try? other.changePasscode(to: new, strength: .interactive, resealing: false)
                report.withLock { $0 = made }
            }
            while (try? store.openedKeybag().epoch) == before { usleep(1000) }
            // A change that does not wait has listed the items by then.
            usleep(200_000)
        }
        let writing = store.backend(
            SystemCalls { call in
                if call == .rename { change.call() }
                return nil
            }
        )
        try writing.unlock(.value("1234"))
        change.raise()
        try writing.lockbox().archiveObject("v", forKey: "written")
        group.wait()
        #expect(report.withLock { $0?.isComplete } == true)
        #expect(try open("new").lockbox().unarchiveObject(forKey: "written") == "v")
        #expect(try owner.lockbox().unarchiveObject(forKey: "written") == "v")
    }

    /// Former keys open none, so a change reseals them before anything else.
    @Test func lockboxsOwnRecordsAreResealedAtOnce() throws {
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        let (own, value) = try addOwnRecord(to: owner)
        let path = owner.storage.location(of: try owner.recordName(of: own))
        let earlier = try readBytes(path)
        try owner.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        #expect(try readBytes(path) != earlier)
        #expect(try open("new").value(for: own, now: nil)?.data == value.data)
        try overwrite(path, earlier)
        expectError(.corrupt) { try open("new").value(for: own, now: nil) }
        expectError(.invalidKey) { try owner.acceptItem(record: owner.recordName(of: own).path) }
        try owner.rotateKeys()
        expectError(.corrupt) { try open("new").value(for: own, now: nil) }
        #expect(try store.openedKeybag().epochs.count == 1, "nor does it keep keys")
    }

    private func addOwnRecord(to owner: SealedBackend) throws -> (key: ItemKey, value: ArchivedValue) {
        let own = try ItemKey(storedPrefix: "\0own\0\(TestStore.prefix)", key: "k")
        let value = try ArchivedValue(data: Data("own".utf8), format: .data)
        let item = try StoredItem(key: own, value: value, accessibility: .always, modified: Date())
        try owner.write(item, policy: .replace)
        return (own, value)
    }

    /// The disk is full for a moment. What was not resealed then could never be read again.
    @Test func ownRecordsThatCannotBeWrittenKeepTheFormerKeys() throws {
        let own = try addOwnRecord(to: store.backend().setUp(items: ["k": .whenUnlocked]))
        // An attempt that is made again fails too.
        let count = try rotate(whileFailing: [.rename], with: ENOSPC, inARow: 2) { (next, call) throws in
            #expect(try next.value(for: own.key, now: nil)?.data == own.value.data, "call \(call)")
        }
        #expect(count > 5)
    }

    /// The system lacks memory for a moment, which says nothing of an item or a folder.
    @Test func aLackOfMemoryExcludesNothing() throws {
        try store.backend().setUp(items: ["a": .always, "k": .whenUnlocked])
        let count = try rotate(whileFailing: [.open, .readdir], with: ENOMEM) { (next, call) throws in
            for key in ["a", "k"] {
                #expect(try next.lockbox().unarchiveObject(forKey: key) == "old", "\(key), call \(call)")
            }
        }
        #expect(count > 20)
    }

    /// Rotates the keys of a copy of the store while a call fails, one after the other of them. The next rotation is complete.
    ///
    /// - Parameters:
    ///   - check: Called with a backend that has made it, and the call's number.
    /// - Returns: The number of the calls.
    private func rotate(
        whileFailing calls: Set<SystemCalls.Call>,
        with code: CInt,
        inARow count: Int = 1,
        _ check: (SealedBackend, Int) throws -> Void
    ) throws -> Int {
        var (number, isHit) = (0, true)
        while isHit {
            number += 1
            let (store, made) = (try TestStore(copying: store), Protected<Int?>(nil))
            let owner = store.backend(
                SystemCalls { [number] call in
                    guard calls.contains(call) else { return nil }
                    return made.withLock { made in
                        made? += 1
                        return made.map((number..<number + count).contains) == true ? .failure(code) : nil
                    }
                }
            )
            try owner.unlock(.value("1234"))
            made.withLock { $0 = 0 }
            _ = try? owner.rotateKeys()
            isHit = made.withLock { $0 } ?? 0 >= number
            let next = try open("1234", of: store)
            #expect(try next.rotateKeys().isComplete, "call \(number)")
            try check(next, number)
        }
        return number
    }

    // MARK: Accepting

    @Test(arguments: [true, false]) func whatCouldNotBeReadIsAcceptedByName(isForLater: Bool) throws {
        let owner = try store.backend().setUp(items: ["a": .always, "k": .whenUnlocked])
        let path = try store.path("a")
        chmod(path, 0o644)
        let report = try owner.changePasscode(
            to: .value("new"),
            strength: .interactive,
            resealing: !isForLater
        )
        #expect(!report.isComplete && report.unreadableItems.map(\.location) == [path])
        chmod(path, 0o600)
        let (lockbox, record) = (try owner.lockbox(), try owner.record(of: "a"))
        for _ in 0..<2 {
            expectError(.corrupt) { try lockbox.unarchiveObject(String.self, forKey: "a") }
            #expect(try lockbox.list().unreadable.map(\.record) == [record])
            #expect(try owner.rotateKeys().unrevokedCount == 1)
            #expect(try store.openedKeybag().isRotating)
        }
        expectError(.interactionNotAllowed) {
            let locked = store.backend()
            try locked.unlock(.value("new"))
            try locked.lock(includingAfterFirstUnlock: true)
            try locked.acceptItem(record: owner.record(of: "k"))
        }
        let accepted = try owner.acceptItem(record: record)
        #expect(accepted.key.key == "a" && accepted.attributes.accessibility == .always)
        #expect(try lockbox.unarchiveObject(forKey: "a") == "old")
        #expect(try lockbox.attributes(forKey: "a")?.origin.proof == .missing)
        expectError(.invalidAttribute) { try lockbox.archiveObject("next", forKey: "a") }
        #expect(try owner.rotateKeys().isComplete)
        #expect(try store.openedKeybag().epochs.count == 1)
        #expect(try open("new").lockbox().unarchiveObject(forKey: "a") == "old")
    }

    @Test func whatOpensNeedsNoAcceptance() throws {
        let owner = try store.backend().setUp(items: ["a": .always])
        let before = try readBytes(store.path("a"))
        #expect(try owner.acceptItem(record: owner.record(of: "a")).key.key == "a")
        #expect(try readBytes(store.path("a")) == before)
        #expect(try owner.lockbox().attributes(forKey: "a")?.origin.proof == .unlocked)
        expectError(.missing) { try owner.acceptItem(record: owner.record(of: "nothing")) }
        expectError(.invalidKey) { try owner.acceptItem(record: "keybag") }
    }

    // MARK: The manifest

    enum Damage: CaseIterable { case removed, changed, cut, emptied, huge, folder }

    @Test(arguments: Damage.allCases) func aDamagedManifestOpensNothingElse(_ damage: Damage) throws {
        let owner = try store.backend().setUp(items: ["a": .always, "k": .whenUnlocked])
        let former = try FormerOwner(store, passcode: "1234")
        try owner.changePasscode(to: .value("new"), strength: .interactive, resealing: false)
        try owner.lockbox().archiveObject("later", forKey: "later")
        let manifest = try "\(store.directory)/items/manifest/" + #require(manifests().first)
        let bytes = try readBytes(manifest)
        switch damage {
        case .removed: unlink(manifest)
        case .changed: try flipLastByte(of: manifest)
        case .cut: try overwrite(manifest, bytes.dropLast(64))
        case .emptied: try overwrite(manifest, [])
        case .huge: try #require(truncate(manifest, 10 << 30) == 0)
        case .folder:
            unlink(manifest)
            mkdir(manifest, 0o700)
        }
        try former.plant("forged", at: "planted")
        let other = try open("new")
        for key in ["a", "k", "planted"] {
            expectError(.corrupt) { try other.lockbox().unarchiveObject(String.self, forKey: key) }
        }
        #expect(try other.lockbox().unarchiveObject(forKey: "later") == "later")
        #expect(try other.lockbox().list().unreadable.count == 3)
        #expect(try other.verify().findings.contains { $0.location == manifest })
        #expect(try !other.rotateKeys().isComplete)
        for key in ["a", "k"] {
            try other.acceptItem(record: other.record(of: key))
            #expect(try other.lockbox().unarchiveObject(forKey: key) == "old")
        }
        unlink(try store.path("planted"))
        #expect(try other.rotateKeys().isComplete)
    }

    /// Each record of a storage has a limit.
    @Test func aManifestHasManyRecords() throws {
        let storage = LimitedStorage(target: InMemoryStorage())
        let backend = SealedBackend(storage: storage, deviceKey: .bytes([UInt8](repeating: 1, count: 32)))
        let keys = (0..<5_000).map { "\($0)" }
        let lockbox = try backend.lockbox()
        try lockbox.batch { for key in keys { try $0.archiveObject("v", forKey: key) } }
        try backend.setPasscode(.value("new"), strength: .interactive, resealing: false)
        var names = 0
        try storage.forEachName(in: Manifest.namespace, waitingForCommits: false) { _ in names += 1 }
        #expect(names == 3)
        let other = SealedBackend(storage: storage, deviceKey: .bytes([UInt8](repeating: 1, count: 32)))
        try other.unlock(.value("new"))
        #expect(try other.lockbox().list().items.count == keys.count)
        #expect(try other.rotateKeys().resealedCount == keys.count)
        names = 0
        try storage.forEachName(in: Manifest.namespace, waitingForCommits: false) { _ in names += 1 }
        #expect(names == 0)
        #expect(try other.lockbox().list().items.count == keys.count)
    }

    /// A process was killed after the new keys were in use, and before it had written down what the former ones open.
    @Test func aChangeBeforeItsManifestIsInterrupted() throws {
        let owner = try store.backend().setUp(items: ["k": .whenUnlocked])
        let former = try FormerOwner(store, passcode: "1234")
        _ = try owner.keyChanges.rotateKeys(.renew)
        let other = try open("1234")
        #expect(try other.status()?.isInterrupted == true)
        #expect(try other.verify().findings.map(\.kind) == [.interrupted])
        #expect(try other.lockbox().unarchiveObject(forKey: "k") == "old")
        #expect(try other.rotateKeys().isComplete)
        #expect(try other.status()?.isInterrupted == false && other.verify().findings.isEmpty)
        try former.plant("forged", at: "planted")
        // The first one has read the keybag when all still opened.
        try expectRefusal(owner, other)
    }
}
