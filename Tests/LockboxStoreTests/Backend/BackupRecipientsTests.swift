import Foundation
import Testing

@testable import Lockbox
@testable import LockboxAge
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
import LockboxTesting

/// Backups to public keys: who can make them, who can read them, and what one that somebody has forged can change.
@Suite(.serialized, .timeLimit(.minutes(10))) struct BackupRecipientsTests: BackupFixture {
    let source: TestStore
    let target: TestStore
    private let key = BackupKey()

    init() throws {
        source = try TestStore()
        target = try TestStore()
    }

    private var secret: BackupSecret { .privateKeys(.value("# a comment\n\n\(key.privateKey)\n")) }

    @discardableResult
    private func exportToKey(_ backend: SealedBackend) throws -> ExportReport {
        try backend.exportBackup(to: path, for: .publicKeys([key.publicKey]))
    }

    private func importWithKey(
        _ backend: SealedBackend,
        _ policy: ExistingItemPolicy = .keep,
        isDryRun: Bool = false
    ) throws -> ImportReport {
        try backend.importBackup(from: path, with: secret, existing: policy, isDryRun: isDryRun)
    }

    @Test func itOpensWithEachPrivateKey() throws {
        let backend = try prepare()
        let other = BackupKey()
        try backend.exportBackup(to: path, for: .publicKeys([key.publicKey, other.publicKey]))
        #expect(try importWithKey(target.backend()).importedCount == 7)
        #expect(try target.backend().allItems() == Set(migratable()))
        let both = "\(BackupKey().privateKey)\n\(other.privateKey)"
        #expect(
            try target.backend().importBackup(from: path, with: .privateKeys(.value(both))).unchangedCount
                == 7
        )
    }

    @Test func otherSecretsAreNamed() throws {
        try exportToKey(prepare())
        let backend = target.backend()
        #expect(throws: LockboxError.wrongPasscode) {
            try backend.importBackup(from: path, with: .privateKeys(.value(BackupKey().privateKey)))
        }
        let passphrase = lockboxError { try restore(backend) }
        #expect(passphrase?.code == .invalidPasscode && "\(passphrase!)".contains("public key"))
        try FileManager.default.removeItem(atPath: path)
        try export(source.backend())
        let error = lockboxError { try importWithKey(backend) }
        #expect(error?.code == .invalidPasscode && "\(error!)".contains("passphrase"))
        for keys in ["", "# nothing", key.publicKey, key.privateKey + "Q"] {
            let error = lockboxError {
                try backend.importBackup(from: path, with: .privateKeys(.value(keys)))
            }
            #expect(error?.code == .invalidPasscode, "\(keys)")
            #expect(!"\(error!)".contains("SECRET-KEY-1\(key.privateKey.dropFirst(16))"))
        }
        for keys in [
            [], [""], [key.privateKey],
            ["age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t"],
        ] {
            expectError(.invalidPasscode) { try backend.exportBackup(to: path, for: .publicKeys(keys)) }
        }
    }

    /// Of recipients that another program has written for, and of Lockbox's own format before 0.1.0.
    @Test func otherFormatsAreNamed() throws {
        let backend = target.backend()
        for (text, code, part) in [
            (
                "age-encryption.org/v1\n-> piv-p256 a b\nAAAA\n--- \(String(repeating: "A", count: 43))\n",
                .notSupported, "piv-p256"
            ),
            ("LBXE\u{1}\u{1}", .notSupported, "377b19f"), ("notes", .notABackup, "not a Lockbox backup"),
            ("-----BEGIN AGE ENCRYPTED FILE-----\n", .notABackup, "not a Lockbox backup"),
            ("", .notABackup, "not a Lockbox backup"),
        ] as [(String, LockboxError.Code, String)] {
            try overwrite(path, Array(text.utf8))
            let error = lockboxError { try importWithKey(backend) }
            #expect(error?.code == code && "\(error!)".contains(part), "\(String(describing: error))")
        }
    }

    @Test func everyFlippedBitAndEveryCutIsRefusedBeforeAnItemIsTaken() throws {
        let backend = source.backend()
        try backend.write(item("1", text: "v"), policy: .addOnly)
        try exportToKey(backend)
        let original = try readBytes(path)
        let receiver = target.backend()
        try receiver.write(item("own"), policy: .addOnly)
        let before = try target.snapshot()
        for index in original.indices {
            for bit in 0..<8 {
                var bytes = original
                bytes[index] ^= 1 << bit
                try overwrite(path, bytes)
                #expect(throws: LockboxError.self, "bit \(bit) of byte \(index)") {
                    try importWithKey(receiver)
                }
            }
            try overwrite(path, Array(original[..<index]))
            #expect(throws: LockboxError.self, "length \(index)") { try importWithKey(receiver) }
        }
        #expect(try target.snapshot() == before)
        try overwrite(path, original)
        #expect(try importWithKey(receiver).importedCount == 1, "the control")
    }

    @Test func tenThousandItems() throws {
        let (from, to) = (SealedBackend.inMemory(), SealedBackend.inMemory())
        let formats: [ValueFormat] = [.json, .data, .lockbox2, ValueFormat(rawValue: 130)]
        for number in 0..<10_000 {
            let text = "\"\(number)\(number % 7 == 0 ? "\n" : "")é\""
            try from.write(
                StoredItem(
                    key: ItemKey(prefix: "p\(number % 3)", key: "k\(number)"),
                    value: ArchivedValue(data: Data(text.utf8), format: formats[number % formats.count]),
                    accessibility: [.whenUnlocked, .afterFirstUnlock, .always][number % 3],
                    created: now - Double(number) / 7,
                    modified: now + Double(number) / 11,
                    expires: number % 5 == 0 ? now + 1e9 : nil,
                    label: number % 2 == 0 ? "L\(number)" : nil,
                    searchable: number % 4 == 0 ? ["server": "\(number)"] : [:]
                ),
                policy: .addOnly
            )
        }
        #expect(try exportToKey(from).exportedCount == 10_000)
        #expect(try importWithKey(to).importedCount == 10_000)
        let items = try from.allItems()
        #expect(items.count == 10_000)
        #expect(try to.allItems() == items)
    }

    /// Nobody who knows only the public key could tell whether the earlier one has more.
    @Test func theEarlierBackupStays() throws {
        let backend = try prepare()
        try exportToKey(backend)
        let before = try readBytes(path)
        let report = try exportToKey(backend)
        #expect(report.keptBackup == "\(path).earlier-1")
        #expect(try readBytes("\(path).earlier-1") == before)
        #expect(
            try backend.exportBackup(to: path, for: .publicKeys([key.publicKey]), replacing: true).keptBackup
                == nil
        )
    }

    // MARK: Forged backups

    @Test(arguments: ExistingItemPolicy.allCases) func aDryRunChangesNothing(_ policy: ExistingItemPolicy)
        throws
    {
        try exportToKey(prepare())
        let backend = target.backend()
        try backend.write(item("1", text: "the target's own"), policy: .addOnly)
        try backend.write(item("2", "a", .afterFirstUnlock), policy: .addOnly)
        try backend.write(item("3", "b", .always, text: "damaged"), policy: .addOnly)
        try overwrite(target.path("3", prefix: "b"), [1])
        let before = try target.snapshot()
        let error = lockboxError {
            let preview = try importWithKey(backend, policy, isDryRun: true)
            #expect(try target.snapshot() == before)
            #expect(try preview == importWithKey(backend, policy))
            #expect(preview.unchangedCount == 1 && preview.addedKeys.count == 4)
            #expect(Set(preview.replacedKeys.map(\.key)) == (policy == .keep ? ["3"] : ["1", "3"]))
        }
        #expect(error?.code == (policy == .fail ? .duplicateItem : nil))
        if policy == .fail { #expect(try target.snapshot() == before) }
        let fresh = try TestStore()
        #expect(try importWithKey(fresh.backend(), isDryRun: true).addedKeys.count == 7)
        #expect(!FileManager.default.fileExists(atPath: fresh.directory))
    }

    /// Otherwise whoever forges one could have the owner's next value for it in a class that the device key opens.
    @Test func anImportLowersNoClass() throws {
        let classes = Accessibility.allCases.filter { $0 != .whenPasscodeSetThisDeviceOnly }
        for old in classes {
            for new in classes.filter({ !$0.isThisDeviceOnly }) {
                let (forger, owner) = (SealedBackend.inMemory(), SealedBackend.inMemory())
                let forged = try item("k", "a", new, text: "forged")
                try forger.write(forged, policy: .addOnly)
                try forger.exportBackup(to: path, for: .publicKeys([key.publicKey]), replacing: true)
                try owner.write(item("k", "a", old, text: "the owner's"), policy: .addOnly)
                #expect(try importWithKey(owner, .keep).keptKeys == [forged.key])
                #expect(try importWithKey(owner, .replace).replacedKeys == [forged.key])
                let now = try #require(try owner.item(for: forged.key, now: nil))
                #expect(now.value == forged.value)
                let expected = old.protection > new.protection ? old : new
                #expect(now.attributes.accessibility == expected, "\(new) over \(old)")
            }
        }
    }

    // MARK: The store's own recipients

    @Test func theyAreKeptUnderThePasscode() throws {
        let backend = try prepare().setUp()
        #expect(try backend.backupRecipients().isEmpty)
        expectError(.invalidPasscode) { try backend.setBackupRecipients(["age1"]) }
        let keys = [key.publicKey, BackupKey().publicKey]
        try backend.setBackupRecipients(keys)
        #expect(try backend.backupRecipients() == keys)
        #expect(try backend.prefixes() == ["a", "b"], "no list shows them")
        let locked = source.backend()
        expectError(.interactionNotAllowed) { try locked.backupRecipients() }
        expectError(.interactionNotAllowed) { try locked.setBackupRecipients([keys[1]]) }
        try locked.unlock(.value("1234"))
        #expect(try locked.backupRecipients() == keys)
        _ = try locked.rotateKeys()
        #expect(try locked.backupRecipients() == keys)
        #expect(try exportToKey(locked).exportedCount == 7, "they are in no backup")
        try locked.setBackupRecipients([])
        #expect(try locked.backupRecipients().isEmpty)
    }

    /// Whoever has the device key can write only what needs no unlock.
    @Test(arguments: [Accessibility.always, .alwaysThisDeviceOnly, .whenUnlocked])
    func whoeverHasTheDeviceKeyCannotReplaceThem(_ accessibility: Accessibility) throws {
        let owner = source.backend()
        _ = try owner.setUp()
        try owner.setBackupRecipients([key.publicKey])
        let evil = try ArchivedValue(data: JSONEncoder().encode([BackupKey().publicKey]), format: .json)
        let recipients = try ItemKey(storedPrefix: "\0backup", key: "recipients")
        let planted = try StoredItem(
            key: recipients,
            value: evil,
            accessibility: accessibility,
            modified: now
        )
        try source.plant(planted, at: recipients)
        let unlocked = source.backend()
        try unlocked.unlock(.value("1234"))
        let error = lockboxError { try unlocked.backupRecipients() }
        #expect(error?.code == (accessibility == .whenUnlocked ? .authenticationFailed : .requirementNotMet))
        // The owner sets them anew.
        try unlocked.setBackupRecipients([key.publicKey])
        #expect(try unlocked.backupRecipients() == [key.publicKey])
    }

    @Test func aChangedRecordIsRefused() throws {
        let owner = source.backend()
        _ = try owner.setUp()
        try owner.setBackupRecipients([key.publicKey])
        let recipients = try ItemKey(storedPrefix: "\0backup", key: "recipients")
        let path = owner.storage.location(of: try owner.recordName(of: recipients))
        var bytes = try readBytes(path)
        bytes[bytes.count - 1] ^= 1
        try overwrite(path, bytes)
        expectError(.authenticationFailed) { try owner.backupRecipients() }
        try owner.write(
            StoredItem(
                key: recipients,
                value: ArchivedValue(data: Data("{}".utf8), format: .json),
                modified: now
            ),
            policy: .replace
        )
        expectError(.corrupt) { try owner.backupRecipients() }
    }
}
