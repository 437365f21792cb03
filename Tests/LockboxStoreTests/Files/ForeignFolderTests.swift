import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// What another program keeps in a folder, and where a store is made.
@Suite struct ForeignFolderTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        mkdir(store.directory, 0o700)
    }

    /// The locks too, which a store's snapshot leaves out.
    private func everything() throws -> [String: [Int]] {
        var found: [String: [Int]] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: store.directory) + ["."] {
            var status = stat()
            #expect(lstat("\(store.directory)/\(path)", &status) == 0)
            let (modified, changed) = (status.st_mtim, status.st_ctim)
            found[path] = [
                Int(status.st_ino), Int(status.st_mode), Int(status.st_nlink), Int(status.st_size),
                modified.tv_sec, modified.tv_nsec, changed.tv_sec, changed.tv_nsec,
            ]
        }
        return found
    }

    /// A project's folder, whose lock is as odd as that of a killed writer.
    private func fill() throws {
        for folder in ["tmp", "tmp/folder", "items", "quarantine"] {
            mkdir("\(store.directory)/\(folder)", 0o700)
        }
        for name in ["notes", ".hidden", "root.1", AbandonedFiles.newName()] { try store.leaveBehind(name) }
        symlink("/etc", "\(store.directory)/tmp/link")
        mkfifo("\(store.directory)/tmp/fifo", 0o600)
        try overwrite("\(store.directory)/lock", Array("1234567\n".utf8))
    }

    @Test func noCallChangesAFolderThatIsNoStore() throws {
        try fill()
        let before = try everything()
        let backend = store.backend()
        let lockbox = try backend.lockbox()
        #expect(try lockbox.allKeys().isEmpty)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "key") == nil)
        #expect(try backend.prefixes().isEmpty && backend.slots.isEmpty && backend.status() == nil)
        #expect(try backend.lockState == .unprotected)
        try lockbox.removeObject(forKey: "key")
        try lockbox.removeAllObjects()
        expectError(.itemNotFound) { try lockbox.moveObject(forKey: "key", toKey: "other") }
        let path = "\(Path.parent(of: store.directory))/backup"
        let calls: [() throws -> Void] = [
            { _ = try backend.verify() }, { try backend.rotateKeys() }, { try backend.acceptRestored() },
            { try backend.exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10)) },
        ]
        for call in calls { expectError(.storeNotFound, from: call) }
        let writes: [() throws -> Void] = [
            { try lockbox.archiveObject("secret", forKey: "key") },
            { try backend.setPasscode(.value("p"), strength: .interactive) },
            { _ = try lockbox.changes() },
        ]
        for write in writes { expectError(.invalidLocation, saying: "new or empty folder", from: write) }
        #expect(try everything() == before)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test(arguments: ["notes", "tmp/notes", "items/notes", "lock", ".git/config", "quarantine.txt"])
    func noStoreIsMadeBesideAFileOfAnotherProgram(_ name: String) throws {
        mkdir(Path.parent(of: "\(store.directory)/\(name)"), 0o700)
        try overwrite("\(store.directory)/\(name)", Array("theirs".utf8))
        let before = try everything()
        expectError(.invalidLocation) { try store.lockbox().archiveObject("secret", forKey: "key") }
        #expect(try everything() == before)
    }

    /// A program that may make none makes no folder either.
    @Test func aRefusedStoreLeavesNothing() throws {
        rmdir(store.directory)
        let backend = store.backend(requires: StoreRequirements(protection: .passcode))
        expectError(.requirementNotMet) { try backend.lockbox().archiveObject("secret", forKey: "key") }
        #expect(!FileManager.default.fileExists(atPath: store.directory))
    }

    // MARK: What a killed creation leaves

    @Test func aStoreIsMadeWhereItsMakingWasKilled() throws {
        mkdir("\(store.directory)/tmp", 0o700)
        try overwrite("\(store.directory)/lock", [1, 0, 0, 0, 0, 0, 0, 0])
        try store.leaveBehind(AbandonedFiles.newName(), age: 0)
        try store.lockbox().archiveObject("secret", forKey: "key")
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "secret")
    }

    @Test func aDeviceKeyThatIsFoundIsNotUsed() throws {
        let other = try TestStore()
        try other.lockbox().archiveObject("secret", forKey: "key")
        let planted = try readBytes(other.deviceKey)
        try overwriteBoth(store.deviceKey, planted)
        try store.lockbox().archiveObject("secret", forKey: "key")
        #expect(try readBytes(store.deviceKey) != planted)
        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "secret")
        // It may be that of a store whose keybag has yet to be put back.
        let aside = try FileManager.default.contentsOfDirectory(atPath: "\(store.directory)/quarantine")
        #expect(try aside.map { try readBytes("\(store.directory)/quarantine/\($0)") } == [planted, planted])
        #expect(try store.backend().verify().findings.isEmpty)
    }

    @Test func aDeviceKeyThatIsNamedIsUsed() throws {
        let key = (0..<40).map { UInt8($0) }
        try overwrite(store.deviceKey, key)
        let source = DeviceKeySource.file(store.deviceKey)
        try store.backend(deviceKey: source).lockbox().archiveObject("secret", forKey: "key")
        #expect(try readBytes(store.deviceKey) == key)
        #expect(!FileManager.default.fileExists(atPath: store.deviceKey + "-copy"), "it is not the store's")
    }

    /// Each makes a device key, and one of them the store.
    @Test func manyCreateAStoreAtOnce() throws {
        rmdir(store.directory)
        for _ in 0..<20 {
            let store = try TestStore()
            DispatchQueue.concurrentPerform(iterations: 8) { number in
                #expect(throws: Never.self) {
                    try store.backend(lockTimeout: .seconds(30)).lockbox()
                        .archiveObject(number, forKey: "\(number)")
                }
            }
            #expect(try store.lockbox().allKeys().count == 8)
        }
    }

    /// At some call a writer renames its file into place, which was listed before.
    @Test func aFileThatIsRenamedMeanwhileIsNotForeign() throws {
        try store.lockbox().archiveObject("secret", forKey: "key")
        let file = "\(store.directory)/tmp/\(AbandonedFiles.newName())"
        for number in 1... {
            try overwrite(file, [])
            let left = Protected(number)
            let storage = store.storage(
                SystemCalls { kind in
                    guard kind == .stat else { return nil }
                    left.withLock { left in
                        left -= 1
                        if left == 0 { unlink(file) }
                    }
                    return nil
                }
            )
            #expect(try storage.findings().allSatisfy { $0.kind == .leftover })
            if left.withLock({ $0 }) > 0 { break }
        }
    }

    // MARK: Sweeping

    @Test func onlyOldFilesOfWritersAreSwept() throws {
        try store.lockbox().archiveObject("old", forKey: "key")
        let (abandoned, recent, held, future) = (
            AbandonedFiles.newName(), AbandonedFiles.newName(), AbandonedFiles.newName(),
            AbandonedFiles.newName()
        )
        try store.leaveBehind(abandoned, age: 86400 + 60)
        try store.leaveBehind(recent, age: 86400 - 60)
        try store.leaveBehind(future, age: -86400 * 400)
        try store.leaveBehind(held)
        let descriptor = open("\(store.directory)/tmp/\(held)", O_RDONLY | O_CLOEXEC)
        #expect(flock(descriptor, LOCK_EX | LOCK_NB) == 0)
        defer { close(descriptor) }
        let foreign = [
            "root.1", "lockbox-1", "\(abandoned).bak", abandoned.uppercased(),
            "lockbox-\(String(repeating: "g", count: 32))",
        ]
        for name in foreign { try store.leaveBehind(name) }

        #expect(try store.lockbox().unarchiveObject(forKey: "key") == "old")
        #expect(try store.leftovers().contains(abandoned), "a read sweeps nothing")
        let kinds = Dictionary(
            grouping: try store.backend().verify().findings,
            by: \.kind
        ).mapValues { Set($0.map { Path.name(of: $0.location) }) }
        #expect(kinds == [.leftover: [abandoned, recent, held, future], .foreign: Set(foreign)])
        try store.lockbox().archiveObject("new", forKey: "key")
        #expect(try Set(store.leftovers()) == Set(foreign + [recent, held, future]))
    }

    /// Without a keybag it is not known to be a store.
    @Test func nothingIsSweptBesideAMissingKeybag() throws {
        try store.lockbox().archiveObject("old", forKey: "key")
        try store.leaveBehind(AbandonedFiles.newName())
        try removeBoth(store.keybag)
        let before = try everything()
        expectError(.missing) { try store.lockbox().archiveObject("new", forKey: "key") }
        expectError(.missing) { try store.lockbox().allKeys() }
        #expect(try everything() == before)
    }

    @Test func aLinkInThePlaceOfTheFolderIsNotFollowed() throws {
        try store.lockbox().archiveObject("old", forKey: "key")
        let (folder, elsewhere) = ("\(store.directory)/tmp", "\(store.directory)/elsewhere")
        try store.leaveBehind(AbandonedFiles.newName())
        #expect(rename(folder, elsewhere) == 0 && symlink(elsewhere, folder) == 0)
        expectError(.unsafePermissions) { try store.lockbox().archiveObject("new", forKey: "key") }
        #expect(try FileManager.default.contentsOfDirectory(atPath: elsewhere).count == 1)
    }

    // MARK: Backups of nothing, and homes that are not there

    @Test func aBackupOfNothingHasToBeAskedFor() throws {
        let backend = store.backend()
        try backend.lockbox().archiveObject("secret", forKey: "key")
        let path = "\(Path.parent(of: store.directory))/backup"
        let passphrase = BackupRecipients.passphrase(.value("p"), workFactor: 10)
        expectError(.emptyBackup) { try backend.exportBackup(to: path, for: passphrase, prefix: "nope") }
        try backend.lockbox().removeAllObjects()
        expectError(.emptyBackup) { try backend.exportBackup(to: path, for: passphrase) }
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(try backend.exportBackup(to: path, for: passphrase, allowsEmpty: true).exportedCount == 0)
        #expect(FileManager.default.fileExists(atPath: path))
    }

    @Test(arguments: ["~/store", nil]) func aHomeThatIsNotThereHidesTheStore(_ name: String?) throws {
        let home = "\(store.directory)/home"
        let variables: HomeFolder.Variables = { (variable) throws(LockboxError) in
            variable == "HOME" ? home : nil
        }
        let location = name.map { StoreLocation($0, variables) } ?? StoreLocation.standard(variables)
        let backend = EncryptedFileBackend(storage: FileStorage(location))
        let calls: [() throws -> Void] = [
            { _ = try backend.prefixes() }, { try backend.lockbox().archiveObject("secret", forKey: "key") },
        ]
        for call in calls { expectError(.invalidLocation, saying: "home folder", from: call) }
        #expect(!FileManager.default.fileExists(atPath: home))
        mkdir(home, 0o700)
        #expect(try backend.prefixes().isEmpty)
        try backend.lockbox().archiveObject("secret", forKey: "key")
    }
}
