import Foundation
import Testing

@testable import Lockbox
@testable import LockboxAge
@testable import LockboxBackup
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
            ("-----BEGIN AGE ENCRYPTED FILE-----\n", .notSupported, "armored"),
            ("\u{FEFF}-----BEGIN AGE ENCRYPTED FILE-----\r\n", .notSupported, "armored"),
            ("", .corrupt, "cut short"), ("age-encry", .corrupt, "cut short"),
            ("\r\n", .corrupt, "cut short"),
            ("age-encryption.org/v1\r\n-> X", .corrupt, "in binary"),
            ("\u{FEFF}age-encryption.org/v1\n", .corrupt, "in binary"),
        ] as [(String, LockboxError.Code, String)] {
            try overwrite(path, Array(text.utf8))
            let error = lockboxError { try importWithKey(backend) }
            #expect(error?.code == code && "\(error!)".contains(part), "\(String(describing: error))")
        }
    }

    @Test func everyChangedByteAndEveryCutIsRefusedBeforeAnItemIsTaken() throws {
        let backend = source.backend()
        try backend.write(item("1", text: "v"), policy: .addOnly)
        try exportToKey(backend)
        let original = try readBytes(path)
        let receiver = target.backend()
        try receiver.write(item("own"), policy: .addOnly)
        let before = try target.snapshot()
        // AgeTests changes each bit.
        for index in original.indices {
            var bytes = original
            bytes[index] ^= 1 << (index % 8)
            try overwrite(path, bytes)
            #expect(throws: LockboxError.self, "byte \(index)") { try importWithKey(receiver) }
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

    /// The state of the owner's item when the backup comes.
    enum Condition: CaseIterable { case whole, expired, damaged, withDamagedNames, readableByOthers }

    /// Otherwise whoever forges one could have the owner's next value for it in a class that the device key opens, or in a backup.
    @Test(arguments: Condition.allCases) func anImportLowersNoClass(_ condition: Condition) throws {
        let classes = Accessibility.allCases.filter { $0 != .whenPasscodeSetThisDeviceOnly }
        for old in classes {
            for new in classes.filter({ !$0.isThisDeviceOnly }) {
                let (forger, owner) = (SealedBackend.inMemory(), try TestStore())
                let forged = try item("k", "a", new, text: "forged")
                try forger.write(forged, policy: .addOnly)
                try forger.exportBackup(to: path, for: .publicKeys([key.publicKey]))
                let mine = try item(
                    "k",
                    "a",
                    old,
                    text: "the owner's",
                    expires: condition == .expired ? now - 1 : nil
                )
                let backend = owner.backend()
                try backend.write(mine, policy: .addOnly)
                let place = try owner.path("k", prefix: "a")
                switch condition {
                case .whole: #expect(try importWithKey(backend, .keep).keptKeys == [forged.key])
                case .expired: break
                case .damaged: try owner.damage("k", prefix: "a")
                case .withDamagedNames:
                    var bytes = try readBytes(place)
                    bytes[100] ^= 1
                    try overwrite(place, bytes)
                case .readableByOthers: try #require(chmod(place, 0o644) == 0)
                }
                let preview = try importWithKey(backend, .replace, isDryRun: true)
                let report = try importWithKey(backend, .replace)
                #expect(report == preview)
                #expect(
                    (condition == .expired ? report.addedKeys : report.replacedKeys) == [forged.key]
                )
                let found = try #require(try backend.item(for: forged.key, now: nil))
                #expect(found.value == forged.value)
                let level = old.protection > new.protection ? old : new
                let isOfDevice = old.isThisDeviceOnly
                #expect(
                    found.attributes.accessibility.protection == level.protection
                        && found.attributes.accessibility.isThisDeviceOnly == isOfDevice,
                    "\(new) over \(old), \(condition)"
                )
                #expect(try importWithKey(backend, .replace).unchangedCount == 1, "and again")
            }
        }
    }

    /// Another export to the file, or another program's file that has come in the meantime.
    @Test func whatComesMeanwhileIsNotLost() throws {
        let backend = try prepare()
        let key = key.publicKey
        var other: [UInt8] = []
        let report = try backend.exportBackup(to: path, for: .publicKeys([key])) { progress in
            guard progress.completed == 1 else { return }
            #expect(throws: Never.self) {
                try backend.exportBackup(to: path, for: .publicKeys([key]))
                other = try readBytes(path)
            }
        }
        #expect(report.keptBackup == "\(path)~")
        #expect(try readBytes("\(path)~") == other && !other.isEmpty)
        let theirs = Array("theirs".utf8)
        try backend.exportBackup(to: path, for: .publicKeys([key])) { progress in
            if progress.completed == 1 { try? overwrite(path, theirs) }
        }
        #expect(try readBytes("\(path)~") == theirs)
    }

    @Test func aLongFileOfPrivateKeys() throws {
        try exportToKey(prepare())
        let lines = (0..<400).map { _ in "# \(BackupKey().publicKey)\n\(BackupKey().privateKey)\n" }.joined()
        let file = Path.parent(of: source.directory) + "/keys"
        try overwrite(file, Array((lines + self.key.privateKey + "\n").utf8))
        try #require(chmod(file, 0o600) == 0)
        #expect(
            try target.backend().importBackup(from: path, with: .privateKeys(.file(file))).importedCount == 7
        )
    }

    /// The message names the line, and not what is in it.
    @Test func aLineThatIsNoPrivateKeyIsNamed() throws {
        try exportToKey(prepare())
        for (text, part) in [
            ("# k\n\nAGE-PLUGIN-YUBIKEY-1XYZ\n", "line 3"), ("\(self.key.privateKey)Q\n", "line 1"),
            ("# nothing\n", "no private key"),
        ] {
            let error = lockboxError {
                try target.backend().importBackup(from: path, with: .privateKeys(.value(text)))
            }
            #expect(
                error?.code == .invalidPasscode && "\(error!)".contains(part),
                "\(String(describing: error))"
            )
            #expect(!"\(error!)".contains("XYZ"))
        }
    }

    /// More than a reader takes would be a backup that nobody opens.
    @Test func tooManyRecipientsAreRefused() throws {
        let backend = try prepare()
        let keys = (0..<1025).map { _ in key.publicKey }
        let error = lockboxError { try backend.exportBackup(to: path, for: .publicKeys(keys)) }
        #expect(error?.code == .invalidPasscode)
        #expect(!FileManager.default.fileExists(atPath: path))
        try backend.exportBackup(to: path, for: .publicKeys(Array(keys.dropLast())))
        #expect(try importWithKey(target.backend()).importedCount == 7)
    }

    @Test func aBackupMayNotCostWhatItsReaderDoesNotAllow() throws {
        try prepare().exportBackup(to: path, for: .passphrase(.value("p"), workFactor: 10))
        func importing(_ maximum: Int) throws -> ImportReport {
            try target.backend().importBackup(
                from: path,
                with: .passphrase(.value("p"), maximumWorkFactor: maximum)
            )
        }
        expectError(.invalidPasscode) { try importing(9) }
        #expect(try importing(10).importedCount == 7)
    }
}
