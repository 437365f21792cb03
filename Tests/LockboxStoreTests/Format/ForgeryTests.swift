import Foundation
import Testing

import Lockbox
@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Whoever has the device key and can write files, but cannot unlock the store, gets no secret and no say by a forged item.
@Suite struct ForgeryTests {
    private let store: TestStore
    private let password = InternetPassword(server: "github.com", account: "alice", protocol: "https")
    private let evil = ["server": "evil.example", "account": "alice", "protocol": "https"]

    init() throws { store = try TestStore() }

    /// A store with a passcode and the password, as a process that has just started.
    private func prepare(_ accessibility: Accessibility = .whenUnlocked) throws -> EncryptedFileBackend {
        let backend = try store.backend().setUp()
        try backend.lockbox().archiveObject(Data("secret".utf8), forKey: password.key)
        if accessibility != .whenUnlocked {
            try backend.lockbox().setAttributes(
                WriteOptions(accessibility: accessibility),
                forKey: password.key.name
            )
        }
        return store.backend()
    }

    private func unlocked() throws -> EncryptedFileBackend {
        let backend = store.backend()
        try backend.unlock(.value("1234"))
        return backend
    }

    // MARK: Attributes

    /// Metadata that names another item's key would lead whoever found it to that item's value.
    @Test(arguments: [true, false])
    func metadataUnderAnotherNameIsRefused(isUnlocked: Bool) throws {
        let name = password.key.name
        let backend = try prepare()
        if isUnlocked { try backend.unlock(.value("1234")) }
        try store.plant(at: "planted", naming: name, .whenUnlocked, evil)
        try store.plant(at: "always", naming: name, .always, evil)
        let lockbox = try backend.lockbox()
        let list = try lockbox.list(matching: evil)
        #expect(list.items.isEmpty && list.unreadable.count == 2)
        #expect(list.unreadable.allSatisfy { $0.error.code == .authenticationFailed })
        #expect(try lockbox.attributes(forKey: name)?.searchable["server"] == "github.com")
        #expect(try lockbox.unarchiveItems(Data.self, matching: evil, unreadable: { _ in }).isEmpty)
        #expect(try lockbox.removeObjects(matching: evil, unreadable: { _ in }) == 0)
        for key in ["planted", "always"] {
            expectError(.authenticationFailed) { try lockbox.attributes(forKey: key) }
            expectError(.authenticationFailed) {
                try lockbox.unarchiveItem(Data.self, forKey: key)
            }
        }
        #expect(try unlocked().lockbox().unarchiveObject(forKey: password.key) == Data("secret".utf8))
    }

    /// While the store is locked, forged attributes are listed. They count no more once it is unlocked.
    @Test func attributesAreAuthenticatedAtTheLevelOfTheClass() throws {
        for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock] {
            let backend = try prepare(accessibility)
            try store.plant(at: password.key.name, naming: password.key.name, accessibility, evil)
            #expect(try backend.lockbox().list(matching: evil).items.count == 1)
            try backend.unlock(.value("1234"))
            let list = try backend.lockbox().list(matching: evil)
            #expect(list.items.isEmpty && list.unreadable.map(\.error.code) == [.authenticationFailed])
            expectError(.authenticationFailed) { try backend.lockbox().attributes(forKey: password.key.name) }
            expectError(.authenticationFailed) { try backend.lockbox().removeObjects(matching: evil) }
            try FileManager.default.removeItem(atPath: Path.parent(of: store.directory))
            mkdir(Path.parent(of: store.directory), 0o700)
        }
    }

    /// In a store without a passcode, no key authenticates that class.
    @Test func attributesOfAClassThatHasNoKeyAreRefused() throws {
        let code = RecoveryCode()
        let owner = try store.backend().setUp(passcode: nil, recovery: code, items: ["k": .whenUnlocked])
        try store.plant(at: "k", naming: "k", .whenPasscodeSetThisDeviceOnly, evil)
        let list = try owner.lockbox().list(matching: evil)
        #expect(list.items.isEmpty && list.unreadable.map(\.error.code) == [.corrupt])
        expectError(.corrupt) { try owner.lockbox().attributes(forKey: "k") }
    }

    /// It is listed, and the owner's item is back when it is opened.
    @Test func whatIsPutBackAfterTheListIsComparedAgain() throws {
        let name = password.key.name
        _ = try prepare()
        let (path, owners) = (try store.path(name), try readBytes(store.path(name)))
        try store.plant(at: name, naming: name, .whenUnlocked, evil)
        let backend = store.backend()
        let hooked = HookedBackend(
            wrapped: backend,
            beforeReading: { _ in
                try? overwrite(path, owners)
                _ = try? backend.unlock(.value("1234"))
            },
            beforeUpdating: {
                try? overwrite(path, owners)
                _ = try? backend.unlock(.value("1234"))
            }
        )
        #expect(try hooked.attributes(prefix: TestStore.prefix, now: nil).count == 1)
        #expect(try hooked.lockbox().unarchiveItems(Data.self, matching: evil).isEmpty)
        try backend.lock()
        try store.plant(at: name, naming: name, .whenUnlocked, evil)
        #expect(try hooked.lockbox().removeObjects(matching: evil) == 0)
        #expect(try unlocked().lockbox().unarchiveObject(forKey: password.key) == Data("secret".utf8))
    }

    // MARK: Classes

    /// The owner's next value must not be sealed in the forger's class.
    @Test(arguments: [Accessibility.always, .alwaysThisDeviceOnly])
    func aForgedClassIsNotKept(_ accessibility: Accessibility) throws {
        let name = password.key.name
        let locked = try prepare()
        try store.plant(at: name, naming: name, accessibility)
        let lockbox = try unlocked().lockbox()
        let writes: [(Lockbox) throws -> Void] = [
            { try $0.archiveObject("next", forKey: name) },
            { try $0.archiveObject("next", forKey: name, options: WriteOptions(policy: .updateOnly)) },
            { lockbox in try lockbox.batch { try $0.archiveObject("next", forKey: name) } },
            { try $0.update(name, as: Data.self) { $0 = Data("next".utf8) } },
            { try $0.archiveObject(Data("next".utf8), forKey: password.key) },
        ]
        let before = try store.snapshot()
        for write in writes {
            expectError(.invalidAttribute) { try write(lockbox) }
            expectError(.classNotProven) { try write(locked.lockbox()) }
        }
        #expect(try store.snapshot() == before)
        // Calls that keep the value expose nothing, and prove nothing.
        try lockbox.setAttributes(WriteOptions(label: .set("label")), forKey: name)
        try lockbox.copyObject(forKey: name, toKey: "copy")
        try lockbox.moveObject(forKey: "copy", toKey: "moved")
        _ = try unlocked().rotateKeys()
        for key in [name, "moved"] {
            expectError(.invalidAttribute) { try unlocked().lockbox().archiveObject("next", forKey: key) }
        }
        try lockbox.archiveObject("next", forKey: name, accessibility: .whenUnlocked)
        try lockbox.archiveObject("later", forKey: name)
        #expect(try lockbox.attributes(forKey: name)?.accessibility == .whenUnlocked)
    }

    /// Neither another store nor a backup gives it the proof that it lacks.
    @Test(arguments: ["item", "items", "backup"]) func aForgedClassIsKeptNowhere(_ way: String) throws {
        let name = password.key.name
        _ = try prepare()
        try unlocked().lockbox().archiveObject("chosen", forKey: "chosen", accessibility: .always)
        try store.plant(at: name, naming: name, .always)
        let (source, other) = (try unlocked(), try TestStore())
        let target = try other.backend().setUp()
        switch way {
        case "item":
            for key in ["chosen", name] {
                let key = try ItemKey(prefix: TestStore.prefix, key: key)
                let item = try source.item(for: key, now: nil)
                try target.update(key, now: nil) { _ in item }
            }
        case "items": try source.copyItems(to: target)
        default:
            let path = "\(other.directory)-backup"
            try source.exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
            try target.importBackup(from: path, with: .passphrase(.value("p")), isTrusted: true)
        }
        #expect(try target.lockbox().list().items.count == 2)
        expectError(.invalidAttribute) { try target.lockbox().archiveObject("next", forKey: name) }
        try target.lockbox().archiveObject("next", forKey: "chosen")
    }

    /// An attacker who knows a public key can write one for it, in a store with a passcode of their own.
    @Test func aForgedBackupProvesNothing() throws {
        let (forger, key) = (try TestStore(), BackupKey())
        let evil = try forger.backend().setUp()
        for (name, accessibility) in [("new", Accessibility.always), ("mine", .always), ("better", .always)] {
            try evil.lockbox().archiveObject("forged", forKey: name, accessibility: accessibility)
        }
        let path = "\(forger.directory)-backup"
        try evil.exportBackup(to: path, for: .publicKeys([key.publicKey]))
        _ = try prepare()
        let owner = try unlocked().lockbox()
        try owner.archiveObject("owner's", forKey: "mine", accessibility: .always)
        try owner.archiveObject("owner's", forKey: "better", accessibility: .afterFirstUnlock)
        try unlocked().importBackup(
            from: path,
            with: .privateKeys(.value(key.privateKey)),
            existing: .replace
        )
        for name in ["new", "mine", "better"] {
            #expect(try owner.unarchiveObject(String.self, forKey: name) == "forged")
            #expect(try owner.attributes(forKey: name)?.origin.proof == .missing, "\(name)")
            expectError(.invalidAttribute) { try owner.archiveObject("next", forKey: name) }
        }
    }

    /// In a store without slots, whoever has the device key can choose any.
    @Test func aClassFromBeforeTheFirstSlotIsNotKept() throws {
        let backend = try store.backend().setUp(passcode: nil)
        let lockbox = try backend.lockbox()
        try lockbox.archiveObject("old", forKey: "k", accessibility: .always)
        try lockbox.archiveObject("new", forKey: "k")
        try backend.setPasscode(.value("1234"), strength: .interactive)
        for _ in 0..<2 {
            expectError(.invalidAttribute) { try lockbox.archiveObject("next", forKey: "k") }
            try backend.rotateKeys()
        }
        try lockbox.archiveObject("next", forKey: "k", accessibility: .always)
        try backend.rotateKeys()
        try lockbox.archiveObject("later", forKey: "k")
        #expect(try lockbox.attributes(forKey: "k")?.accessibility == .always)
    }

    /// A service that opens the `afterFirstUnlock` classes proves no more.
    @Test func aServicesClassIsNotKept() throws {
        let code = RecoveryCode()
        let owner = try store.backend().setUp(recovery: code, items: ["k": .whenUnlocked])
        let key = Sodium.randomBytes(32)
        try owner.addSlot(.key(.bytes(key)), label: "service")
        try owner.lockbox().removeObject(forKey: "k")
        let service = store.backend()
        try service.unlock(with: .key(.bytes(key)))
        try service.lockbox().archiveObject("planted", forKey: "k", accessibility: .afterFirstUnlock)
        expectError(.invalidAttribute) { try owner.lockbox().archiveObject("next", forKey: "k") }
        expectError(.classNotProven) { try service.lockbox().archiveObject("next", forKey: "k") }
        try service.lockbox().archiveObject("next", forKey: "k", accessibility: .afterFirstUnlock)
    }

    /// Whoever could unlock the store, and everybody in a store without slots, chooses a class for all later writes.
    @Test(arguments: [nil, "1234"]) func aChosenClassIsKept(_ passcode: String?) throws {
        try store.backend().setUp(passcode: passcode)
        for accessibility in Accessibility.allCases where accessibility != .whenPasscodeSetThisDeviceOnly {
            let backend = store.backend()
            if let passcode { try backend.unlock(.value(passcode)) }
            let lockbox = try backend.lockbox()
            try lockbox.archiveObject("old", forKey: "k", accessibility: accessibility)
            try lockbox.archiveObject("new", forKey: "k")
            try lockbox.update("k", as: String.self) { $0? += "er" }
            try backend.rotateKeys()
            try lockbox.moveObject(forKey: "k", toKey: "moved")
            try lockbox.archiveObject("newest", forKey: "moved")
            #expect(try lockbox.attributes(forKey: "moved")?.accessibility == accessibility)
            try lockbox.removeObject(forKey: "moved")
        }
    }

    // MARK: Retired keys

    /// One file that nobody can read would let every key stay that ever leaked.
    @Test func junkKeepsNoKeysAlive() throws {
        let backend = try store.backend().setUp(items: .everyClass)
        let old = try store.keyFiles()
        let junk = try store.path("junk")
        for bytes in [
            [], [UInt8](repeating: 1, count: 400), Array(try readBytes(store.path("ak")).prefix(200)),
        ] {
            try overwrite(junk, bytes)
            let report = try backend.changePasscode(to: .value("1234"), strength: .interactive)
            #expect(report.unreadableItems.map(\.location) == [junk])
            #expect(report.unrevokedCount == 0)
            #expect(try store.openedKeybag().epochs == [store.openedKeybag().epoch])
        }
        try FileManager.default.removeItem(atPath: junk)
        try expectForgeriesAreRefused(with: old, at: "ak", backend)
    }

    /// The old keys stay for what cannot be read for now, and open nothing.
    @Test(arguments: ["permissions", "link", "value"]) func formerKeysOpenNothingElse(_ damage: String)
        throws
    {
        let backend = try store.backend().setUp(items: .everyClass)
        let (path, bytes, old) = (try store.path("ck"), try readBytes(store.path("ck")), try store.keyFiles())
        switch damage {
        case "permissions": chmod(path, 0o644)
        case "link":
            try FileManager.default.removeItem(atPath: path)
            symlink("/dev/null", path)
        default: try flipLastByte(of: path)
        }
        #expect(try backend.rotateKeys().unrevokedCount == 1)
        #expect(try store.openedKeybag().epochs.count == 2)
        try expectForgeriesAreRefused(with: old, at: "ak", backend)
        // An unreadable file may have been written since.
        #expect(try backend.rotateKeys().unrevokedCount == 1)
        #expect(try store.openedKeybag().epochs.count == (damage == "value" ? 2 : 3))
        try expectForgeriesAreRefused(with: old, at: "ak", backend)
        try? FileManager.default.removeItem(atPath: path)
        try overwrite(path, bytes)
        chmod(path, 0o600)
        expectError(.corrupt) { try unlocked().lockbox().unarchiveObject(String.self, forKey: "ck") }
        try backend.acceptItem(record: backend.record(of: "ck"))
        #expect(try unlocked().lockbox().unarchiveObject(forKey: "ck") == "old")
        #expect(try backend.rotateKeys().isComplete)
        #expect(try store.openedKeybag().epochs.count == 1)
        #expect(try unlocked().lockbox().unarchiveObject(forKey: "ck") == "old")
    }

    /// So do those of a folder that cannot be listed.
    @Test func theItemsOfAFolderAreAccepted() throws {
        let backend = try store.backend().setUp(items: ["k": .whenUnlocked])
        let other = try backend.lockbox("com.example.other")
        try other.archiveObject("of another", forKey: "o")
        let (folder, old) = (
            Path.parent(of: try store.path("o", prefix: "com.example.other")), try store.keyFiles()
        )
        chmod(folder, 0o777)
        #expect(try unlocked().rotateKeys().unrevokedCount == 1)
        chmod(folder, 0o700)
        // It meets the new keys.
        #expect(try backend.lockbox().unarchiveObject(forKey: "k") == "old")
        expectError(.corrupt) { try other.unarchiveObject(String.self, forKey: "o") }
        try expectForgeriesAreRefused(with: old, at: "k", backend)
        try backend.acceptItem(record: backend.record(of: "o", prefix: "com.example.other"))
        #expect(try backend.rotateKeys().isComplete)
        #expect(try other.unarchiveObject(forKey: "o") == "of another")
    }

    /// Seals an item with all keys that an old copy of the keybag has for its owner, and puts it in the place of another.
    private func expectForgeriesAreRefused(
        with old: KeyFiles,
        at key: String,
        _ backend: EncryptedFileBackend
    ) throws {
        let copy = try TestStore(copying: store)
        try copy.putBack(old)
        try FileManager.default.removeItem(atPath: "\(copy.directory)/items")
        let forger = copy.backend(remembers: false)
        try forger.unlock(.value("1234"))
        let (path, owners) = (try store.path(key), try readBytes(store.path(key)))
        for accessibility in [Accessibility.whenUnlocked, .afterFirstUnlock, .always] {
            try forger.lockbox().archiveObject("forged", forKey: key, accessibility: accessibility)
            try overwrite(path, readBytes(copy.path(key)))
            for reader in [backend, try unlocked()] {
                let error = lockboxError { try reader.lockbox().unarchiveObject(String.self, forKey: key) }
                #expect(error?.code == .authenticationFailed || error?.code == .corrupt, "\(accessibility)")
                #expect(try reader.lockbox().list().items[key] == nil)
            }
        }
        try overwrite(path, owners)
    }
}
