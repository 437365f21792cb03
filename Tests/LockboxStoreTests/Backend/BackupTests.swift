import Foundation
import Testing

@testable import Lockbox
@testable import LockboxAge
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
        #expect(try export(source.backend()).exportedCount == 0)
        #expect(try restore(target.backend()).importedCount == 0)
        #expect(!FileManager.default.fileExists(atPath: target.directory))
        #expect(!FileManager.default.fileExists(atPath: source.directory))
    }

    @Test func lockedItems() throws {
        let backend = try prepare().setUp()
        let locked = source.backend()
        expectError(.interactionNotAllowed) { try export(locked) }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: Path.parent(of: path)) == ["store"]
        )
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
                "backup", "store",
            ]
        )
    }

    // MARK: The file

    /// A mistyped prefix or folder must not cost the last backup.
    @Test func nothingDoesNotReplaceABackup() throws {
        let backend = try prepare()
        _ = try export(backend)
        let before = try readBytes(path)
        expectError(.unsafePermissions) { try export(backend, prefix: "none") }
        expectError(.unsafePermissions) { try export(TestStore().backend()) }
        #expect(try readBytes(path) == before)
        try FileManager.default.removeItem(atPath: path)
        #expect(try export(backend, prefix: "none").exportedCount == 0)
    }

    /// A backup takes the place of an earlier one, and of nothing else: not of the store's own files, and not of a device.
    @Test func whatIsNoBackupIsNotReplaced() throws {
        let backend = try prepare()
        let folder = Path.parent(of: path)
        let (text, link, pipe) = ("\(folder)/text", "\(folder)/link", "\(folder)/pipe")
        try overwrite(text, Array("notes".utf8))
        _ = try export(backend)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        try #require(mkfifo(pipe, 0o600) == 0)
        var places = [source.keybag, source.deviceKey, text, link, pipe, folder]
        // A null device of our own, where that is allowed.
        if mknod("\(folder)/device", S_IFCHR | 0o600, 0x103) == 0 { places.append("\(folder)/device") }
        let files = [source.keybag, source.deviceKey, text]
        for place in places {
            let before = try? FileManager.default.attributesOfItem(atPath: place)[.systemFileNumber] as? Int
            let error = lockboxError {
                try backend.exportBackup(to: place, for: .passphrase(.value("p"), workFactor: 10))
            }
            #expect(error?.code == (files.contains(place) ? .notABackup : .unsafePermissions), "\(place)")
            #expect(
                try FileManager.default.attributesOfItem(atPath: place)[.systemFileNumber] as? Int == before
            )
        }
        #expect(try source.backend().allItems().count == migratable().count + 3)
        let empty = "\(folder)/empty"
        try overwrite(empty, [])
        for place in [empty, path] {
            try backend.exportBackup(to: place, for: .passphrase(.value("p"), workFactor: 10))
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
        let recipients = try BackupRecipients.passphrase(.value("p"), workFactor: 10).keys()
        _ = try backend.export(to: path, for: recipients, nil, false, calls) { _ in }
        #expect(trace.withLock { $0.suffix(4) } == [.write, .fsync, .rename, .fsync])
    }

    @Test("Promise 2: a killed export leaves the old file or the new one")
    func killedExport() throws {
        _ = try prepare()
        let old = Array("age-encryption.org/v1, an earlier backup".utf8)
        var number = 0
        var status: Int32 = -SIGKILL
        while status == -SIGKILL {
            number += 1
            try overwrite(path, old)
            status = try TestProcess("die-in", source.directory, "0", "export", path, "\(number)").wait()
            let kept = "\(path).earlier-1"
            let isKept = FileManager.default.fileExists(atPath: kept)
            if isKept {
                #expect(try readBytes(kept) == old)
                try FileManager.default.removeItem(atPath: kept)
            }
            if try readBytes(path) == old { continue }
            #expect(isKept, "it cannot be read")
            #expect(try restore(TestStore().backend()).importedCount == 7, "call \(number)")
        }
        #expect(status == 0)
        #expect(number > 6)
    }

    // MARK: An earlier backup

    /// Until the new one has everything that it has.
    @Test func aBackupWithMoreThanTheNewOneStays() throws {
        let backend = try prepare()
        _ = try export(backend)
        let before = try readBytes(path)
        let record = try source.damage("2", prefix: "a")
        let bytes = try readBytes(record)
        let report = try export(backend)
        let kept = try #require(report.keptBackup)
        #expect(try readBytes(kept) == before && TestStore.Entry(kept).mode == S_IFREG | 0o600)
        #expect(try export(backend).keptBackup == nil, "the new one has what the last one has")
        #expect(try export(backend, prefix: "b").keptBackup != nil)
        try overwrite(record, bytes)
        try backend.importBackup(from: kept, with: .passphrase(.value("passphrase")))
        #expect(try backend.allItems().isSuperset(of: migratable()))
    }

    @Test func aBackupOfAnotherStoreStays() throws {
        _ = try export(prepare())
        let before = try readBytes(path)
        let other = target.backend()
        for item in try migratable() {
            try other.write(
                StoredItem(
                    key: item.key,
                    value: item.value,
                    accessibility: item.attributes.accessibility,
                    created: now - 99,
                    modified: now
                ),
                policy: .addOnly
            )
        }
        let report = try export(other)
        let kept = try #require(report.keptBackup)
        #expect(try readBytes(kept) == before)
    }

    /// Whatever prevents that it is read.
    @Test func aBackupThatCannotBeReadStays() throws {
        let backend = try prepare()
        _ = try export(backend)
        let before = try readBytes(path)
        func kept(_ passphrase: String, replacing: Bool = false) throws -> String? {
            try backend.exportBackup(
                to: path,
                for: .passphrase(.value(passphrase), workFactor: 10),
                replacing: replacing
            ).keptBackup
        }
        let first = try #require(try kept("another"))
        #expect(try readBytes(first) == before)
        try overwrite(path, before.dropLast())
        let second = try #require(try kept("passphrase"))
        #expect(second != first)
        #expect(try readBytes(first) == before && readBytes(second) == before.dropLast())
        try overwrite(path, before.dropLast())
        #expect(try kept("passphrase", replacing: true) == nil)
    }

    @Test func aBackupWithNothingMoreIsReplaced() throws {
        let backend = try prepare()
        _ = try export(backend)
        let lockbox = try Lockbox(keyPrefix: "a", backend: backend)
        try lockbox.archiveObject("newer", forKey: "1")
        try lockbox.setAttributes(WriteOptions(accessibility: .always), forKey: "2")
        try lockbox.removeObject(forKey: "expired")
        try lockbox.archiveObject("another", forKey: "more")
        #expect(try export(backend).keptBackup == nil)
        try lockbox.removeObject(forKey: "more")
        #expect(try export(backend).keptBackup != nil)
    }

    /// FAT has none.
    @Test func anEarlierBackupStaysWithoutHardLinks() throws {
        let backend = try prepare()
        _ = try export(backend)
        let before = try readBytes(path)
        try overwrite("\(path).earlier-1", [1])
        let calls = SystemCalls { $0 == .link ? .failure(EPERM) : nil }
        let another = AgeRecipient.passphrase(WipedBytes("another".utf8), workFactor: 10)
        let report = try backend.export(to: path, for: [another], nil, false, calls) { _ in }
        #expect(report.keptBackup == "\(path).earlier-2")
        #expect(try readBytes("\(path).earlier-2") == before && readBytes("\(path).earlier-1") == [1])
    }
}
