import Foundation
import Testing

@testable import Lockbox
@testable import LockboxAge
@testable import LockboxBackup
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The contents of a backup, and what becomes of its file.
@Suite(.serialized, .timeLimit(.minutes(10))) struct BackupTests: BackupFixture {
    let source: TestStore
    let target: TestStore

    init() throws {
        source = try TestStore()
        target = try TestStore()
    }

    @Test func everyMigratableItemArrivesAndTheOthersAreNamed() throws {
        let report = try export(prepare())
        #expect(report.exportedCount == 7)
        #expect(Set(report.excludedKeys.map(\.key)) == ["aku", "cku", "dku"])
        #expect(try TestStore.Entry(path).mode == S_IFREG | 0o600)
        let backend = target.backend()
        #expect(try restore(backend).importedCount == 7)
        #expect(try target.backend().allItems() == Set(migratable()))
        #expect(try backend.allItems() == Set(migratable()))
    }

    @Test func onePrefixAlone() throws {
        #expect(try export(prepare(), prefix: "b").exportedCount == 3)
        _ = try restore(target.backend())
        #expect(try target.backend().prefixes() == ["b"])
    }

    @Test func anEmptyStore() throws {
        expectError(.storeNotFound) { try export(source.backend()) }
        #expect(!FileManager.default.fileExists(atPath: source.directory))
        try source.lockbox().archiveObject("secret", forKey: "key")
        try source.lockbox().removeObject(forKey: "key")
        let passphrase = BackupRecipients.passphrase(.value("passphrase"), workFactor: 1)
        try source.backend().exportBackup(to: path, for: passphrase, allowsEmpty: true)
        let report = try target.backend().importBackup(
            from: path,
            with: .passphrase(.value("passphrase"))
        )
        #expect(report.importedCount == 0)
        #expect(!FileManager.default.fileExists(atPath: target.directory))
    }

    @Test func lockedItems() throws {
        let backend = try prepare().setUp()
        let locked = source.backend()
        expectError(.interactionNotAllowed) { try export(locked) }
        let names = try FileManager.default.contentsOfDirectory(atPath: Path.parent(of: path))
        #expect(!names.contains { $0.hasPrefix("backup") }, "\(names)")
        try export(backend)

        let receiver = try target.backend().setUp(passcode: "5678")
        try receiver.lock()
        let before = try target.snapshot()
        expectError(.interactionNotAllowed) { try restore(receiver) }
        #expect(try target.snapshot() == before)
        try receiver.unlock(.value("5678"))
        #expect(try restore(receiver).importedCount == 7)
    }

    /// Also from a disk that may not be written to.
    @Test func aReadOnlyStoreIsExported() throws {
        _ = try prepare()
        let backend = source.backend(SystemCalls { $0 == .flock ? .failure(EROFS) : nil })
        #expect(try export(backend).exportedCount == 7)
    }

    @Test func onePrefixBesideADamagedOne() throws {
        let backend = try prepare()
        try overwrite(source.path("3", prefix: "b"), [])
        #expect(try export(backend, prefix: "a").isComplete)
        let report = try export(backend)
        #expect(report.exportedCount == 6 && report.findings.count == 1)
    }

    /// Its value, while its metadata can be read: so its key is named.
    @Test func anExportGoesPastWhatItCannotRead() throws {
        let backend = try prepare()
        let damaged = try source.damage("2", prefix: "a")
        let report = try export(backend)
        #expect(report.exportedCount == 6 && !report.isComplete)
        #expect(report.findings.map(\.location) == [damaged])
        #expect(report.findings.first?.reason.contains(#"key "2""#) == true)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: Path.parent(of: path)).sorted() == [
                "backup.incomplete", "store",
            ]
        )
    }

    // MARK: The file

    /// A mistyped prefix or folder must not cost the last backup.
    @Test func nothingDoesNotReplaceABackup() throws {
        let backend = try prepare()
        _ = try export(backend)
        let before = try readBytes(path)
        expectError(.emptyBackup) { try export(backend, prefix: "none") }
        expectError(.storeNotFound) { try export(TestStore().backend()) }
        #expect(try readBytes(path) == before)
    }

    /// A mistyped path moves no folder, link or device.
    @Test func whatIsNoFileIsNotReplaced() throws {
        let backend = try prepare()
        let folder = Path.parent(of: path)
        let (link, pipe) = ("\(folder)/link", "\(folder)/pipe")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        try #require(mkfifo(pipe, 0o600) == 0)
        var places = [link, pipe, folder]
        // A null device of our own, where that is allowed.
        if mknod("\(folder)/device", S_IFCHR | 0o600, 0x103) == 0 { places.append("\(folder)/device") }
        for place in places {
            let before = try FileManager.default.attributesOfItem(atPath: place)[.systemFileNumber] as? Int
            let error = lockboxError {
                try backend.exportBackup(to: place, for: .passphrase(.value("p"), workFactor: 1))
            }
            #expect(error?.code == .unsafePermissions, "\(place)")
            #expect(
                try FileManager.default.attributesOfItem(atPath: place)[.systemFileNumber] as? Int == before
            )
        }
    }

    @Test("Promise 2: an export is synchronized before and after its rename")
    func orderOfSystemCalls() throws {
        let backend = try prepare()
        let trace = Protected<[SystemCalls.Call]>([])
        let calls = SystemCalls(fault: { call in
            trace.withLock { if [.write, .fsync, .rename].contains(call) { $0.append(call) } }
            return nil
        })
        let recipients = try BackupRecipients.passphrase(.value("p"), workFactor: 1).keys()
        for _ in 0..<2 { _ = try backend.export(to: path, for: recipients, calls: calls) }
        // A rename of what is not there, and one of the earlier file.
        #expect(trace.withLock { $0.suffix(5) } == [.write, .fsync, .rename, .rename, .fsync])
    }

    @Test("Promise 2: a killed export loses no earlier file")
    func killedExport() throws {
        _ = try prepare()
        let (old, kept) = (Array("an earlier file".utf8), "\(path)~")
        var number = 0
        var status: Int32 = -SIGKILL
        while status == -SIGKILL {
            number += 1
            try overwrite(path, old)
            if FileManager.default.fileExists(atPath: kept) {
                try FileManager.default.removeItem(atPath: kept)
            }
            status = try TestProcess("die-in", source.directory, "0", "export", path, "\(number)").wait()
            if !FileManager.default.fileExists(atPath: kept) {
                #expect(try readBytes(path) == old, "call \(number)")
                continue
            }
            #expect(try readBytes(kept) == old, "call \(number)")
            // Between the two renames, there is none.
            if FileManager.default.fileExists(atPath: path) {
                #expect(try restore(TestStore().backend()).importedCount == 7, "call \(number)")
            }
        }
        #expect(status == 0)
        #expect(number > 6)
    }

    // MARK: A file that is there already

    @Test func anExportThatDoesNotGetItsNameLeavesTheEarlierFile() throws {
        let (backend, old, renames) = (try prepare(), Array("an earlier file".utf8), Protected(0))
        try overwrite(path, old)
        let calls = SystemCalls(fault: { call in
            call == .rename && renames.next() == 2 ? .failure(EIO) : nil
        })
        let recipients = try BackupRecipients.passphrase(.value("p"), workFactor: 1).keys()
        expectError(.storageFailure) { try backend.export(to: path, for: recipients, calls: calls) }
        #expect(try readBytes(path) == old)
        #expect(!FileManager.default.fileExists(atPath: "\(path)~"))
    }

    /// Of any kind, but it does not replace a file of another kind, which may be an editor's.
    @Test func theEarlierFileStays() throws {
        let backend = try prepare()
        #expect(try export(backend).keptBackup == nil)
        let first = try readBytes(path)
        #expect(try export(backend).keptBackup == "\(path)~")
        #expect(try readBytes("\(path)~") == first)
        try overwrite(path, Array("notes".utf8))
        #expect(try export(backend).path == path)
        #expect(try readBytes("\(path)~") == Array("notes".utf8))
        let last = try readBytes(path)
        expectError(.notABackup) { try export(backend) }
        #expect(try readBytes("\(path)~") == Array("notes".utf8) && readBytes(path) == last)
        try FileManager.default.removeItem(atPath: path)
        #expect(try export(backend).keptBackup == nil, "nothing takes its place")
        try overwrite("\(path)~", [])
        #expect(try export(backend).keptBackup == "\(path)~")
    }

    @Test func anExportThatCannotKeepTheEarlierFileChangesNothing() throws {
        let backend = try prepare()
        try overwrite(path, [1])
        try FileManager.default.createDirectory(atPath: "\(path)~", withIntermediateDirectories: false)
        expectError(.unsafePermissions) { try export(backend) }
        #expect(try readBytes(path) == [1])
        let names = try FileManager.default.contentsOfDirectory(atPath: Path.parent(of: path))
        #expect(names.sorted() == ["backup", "backup~", "store"])
    }

    /// Otherwise the second one would replace the last that has everything.
    @Test func aBackupThatIsNotCompleteReplacesOnlySuch() throws {
        let backend = try prepare()
        try export(backend)
        try export(backend)
        let (last, earlier) = (try readBytes(path), try readBytes("\(path)~"))
        try source.damage("2", prefix: "a")
        for number in 0..<3 {
            let report = try export(backend)
            #expect(!report.isComplete && report.exportedCount == 6)
            #expect(report.path == "\(path).incomplete")
            #expect(report.keptBackup == (number > 0 ? "\(path).incomplete~" : nil))
            #expect(try readBytes(path) == last && readBytes("\(path)~") == earlier)
        }
        let passphrase = BackupSecret.passphrase(.value("passphrase"))
        #expect(
            try target.backend().importBackup(from: "\(path).incomplete", with: passphrase).importedCount == 6
        )
        try backend.importBackup(from: path, with: passphrase)
        #expect(try backend.allItems().isSuperset(of: migratable()))
        #expect(try export(backend).path == path)
        #expect(try readBytes("\(path)~") == last)
    }

    @Test func singleItems() throws {
        try export(prepare())
        let keys = try SealedBackend.keys(ofBackup: path, with: .passphrase(.value("passphrase")))
        let one = try item("1").key
        #expect(Set(keys).count == 7 && keys.contains(one))
        let backend = target.backend()
        func restore(_ keys: Set<ItemKey>) throws -> ImportReport {
            try backend.importBackup(from: path, with: .passphrase(.value("passphrase")), only: keys)
        }
        try backend.write(item("mine"), policy: .addOnly)
        let missing = try ItemKey(prefix: "a", key: "none")
        let before = try target.snapshot()
        expectError(.itemNotFound) { try restore([one, missing]) }
        #expect(try target.snapshot() == before)
        #expect(try restore([one]).addedKeys == [one])
        #expect(try backend.attributes(prefix: "a", now: nil).count == 2)
        #expect(try restore([one]).unchangedCount == 1)
    }
}
