import Foundation
import Testing

@testable import Lockbox
@testable import LockboxAge
@testable import LockboxBackup
@_spi(Extensions) @testable import LockboxCore
import LockboxPlatform
@_spi(Extensions) @testable import LockboxStore

/// Findings of an import, in the backup and in the store.
@Suite(.serialized, .timeLimit(.minutes(10))) struct BackupImportTests: BackupFixture {
    let source: TestStore
    let target: TestStore

    init() throws {
        source = try TestStore()
        target = try TestStore()
    }

    @Test func existingItems() throws {
        try export(prepare())
        let own = try item("1", "a", .always, text: "the target's own")
        for (policy, imported, kept) in [
            (ExistingItemPolicy.keep, 6, ["1"]), (.replace, 7, []), (.fail, 0, []),
        ] {
            let target = try TestStore()
            let backend = target.backend()
            try backend.write(own, policy: .addOnly)
            let before = try target.snapshot()
            let found = lockboxError {
                let report = try restore(backend, policy)
                #expect(report.importedCount == imported)
                #expect(report.keptKeys.map(\.key) == kept)
            }
            #expect(found == (policy == .fail ? .duplicateItem(key: own.key.key) : nil))
            if policy == .fail { #expect(try target.snapshot() == before) }
            let expected = policy == .replace ? try item("1") : own
            #expect(try backend.item(for: own.key, now: now) == expected)
            if policy != .fail {
                let again = try restore(backend, policy == .keep ? .keep : .fail)
                #expect(again.importedCount == 0 && again.unchangedCount + again.keptKeys.count == 7)
            }
        }
    }

    @Test(arguments: ExistingItemPolicy.allCases) func anExpiredItemIsInNobodysWay(
        _ policy: ExistingItemPolicy
    ) throws {
        try export(prepare())
        let backend = target.backend()
        let expired = try item("1", text: "the target's own", expires: now - 1)
        try backend.write(expired, policy: .addOnly)
        let report = try restore(backend, policy)
        #expect(report.importedCount == 7 && report.keptKeys.isEmpty)
        #expect(try backend.item(for: expired.key, now: now) == item("1"))
        #expect(
            try restore(backend, policy).unchangedCount == 7,
            "the one that is expired in the backup, too"
        )
    }

    /// Its class is not lowered, so the store has to be unlocked.
    @Test(arguments: ExistingItemPolicy.allCases) func anExpiredItemThatIsLocked(_ policy: ExistingItemPolicy)
        throws
    {
        let open = try item("k", "a", .always)
        try source.backend().write(open, policy: .addOnly)
        try export(source.backend())
        let backend = try target.backend().setUp()
        let expired = try item("k", text: "the target's own", expires: now - 1)
        try backend.write(expired, policy: .addOnly)
        try backend.lock()
        expectError(.interactionNotAllowed) {
            try backend.item(for: expired.key, now: nil)
        }
        let before = try target.snapshot()
        expectError(.interactionNotAllowed) { try restore(backend, policy) }
        #expect(try target.snapshot() == before)
        try backend.unlock(.value("1234"))
        #expect(try restore(backend, policy).importedCount == 1)
        #expect(try backend.item(for: expired.key, now: now) == item("k", text: "of k"))
    }

    /// Between the look at it and the lock, another process stores a new value in its place.
    @Test(arguments: [ExistingItemPolicy.keep, .fail])
    func anExpiredItemThatIsWrittenAnewMeanwhile(_ policy: ExistingItemPolicy) throws {
        try source.backend().write(item("1"), policy: .addOnly)
        try export(source.backend())
        let other = target.backend()
        try other.write(item("1", text: "expired", expires: now - 1), policy: .addOnly)
        let newer = try item("1", text: "another process's")
        let isWritten = Protected(false)
        let backend = target.backend(
            SystemCalls(fault: { call in
                // The lock for the write is the first.
                if call == .flock, !isWritten.withLock({ $0 }) {
                    isWritten.withLock { $0 = true }
                    try? other.write(newer, policy: .replace)
                }
                return nil
            })
        )
        let error = lockboxError {
            let report = try restore(backend, policy)
            #expect(report.keptKeys == [newer.key])
        }
        #expect(error == (policy == .fail ? .duplicateItem(key: newer.key.key) : nil))
        #expect(isWritten.withLock { $0 })
        #expect(try other.item(for: newer.key, now: now)?.value == newer.value)
    }

    /// A backup is what a damaged item is mended with. A newer item beside it stays.
    @Test(arguments: [ExistingItemPolicy.keep, .replace]) func damagedItems(_ policy: ExistingItemPolicy)
        throws
    {
        let backend = try prepare()
        _ = try export(backend)
        let newer = try item("2", text: "newer")
        try backend.write(newer, policy: .replace)
        let short = try source.path("1", prefix: "a")
        try overwrite(short, Array(readBytes(short).dropLast()))
        try overwrite(source.path("3", prefix: "b"), [])
        try source.damage("empty", prefix: "b")
        try overwrite(source.path("large", prefix: "a"), [UInt8](repeating: 1, count: 1000))
        let before = try source.snapshot()
        expectError(.duplicateItem) { try restore(backend, .fail) }
        #expect(try source.snapshot() == before)
        let report = try restore(backend, policy)
        #expect(report.isComplete && report.importedCount == (policy == .keep ? 4 : 5))
        #expect(report.keptKeys == (policy == .keep ? [newer.key] : []))
        // The newer item's class was better protected, and stays.
        #expect(try restore(backend).unchangedCount == (policy == .keep ? 6 : 7))
        #expect(try backend.item(for: item("1").key, now: now) == item("1"))
        if policy == .keep { #expect(try backend.value(for: newer.key, now: now) == newer.value) }
        #expect(try backend.verify().findings.isEmpty)
    }

    /// Anything in an item's place that may be whole is set aside.
    @Test(arguments: [ExistingItemPolicy.keep, .replace]) func whatIsNoItemIsSetAside(
        _ policy: ExistingItemPolicy
    ) throws {
        let backend = try prepare()
        _ = try export(backend)
        let newer = try item("2", "a", .afterFirstUnlock, text: "newer")
        try backend.write(newer, policy: .replace)
        let link = try source.path("1", prefix: "a")
        try FileManager.default.removeItem(atPath: link)
        try #require(symlink("/etc/passwd", link) == 0)
        let folder = try source.path("3", prefix: "b")
        try FileManager.default.removeItem(atPath: folder)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        try overwrite("\(folder)/file", [1])
        let open = try source.path("2", prefix: "a")
        let bytes = try readBytes(open)
        try #require(chmod(open, 0o640) == 0)
        expectError(.unsafePermissions) { try restore(backend, .fail) }

        let report = try restore(backend, policy)
        #expect(
            report.isComplete && report.importedCount == 3 && report.unchangedCount == 4
                && report.keptKeys.isEmpty
        )
        #expect(try source.backend().allItems().isSuperset(of: migratable()))
        let aside = "\(source.directory)/quarantine"
        let names = try FileManager.default.contentsOfDirectory(atPath: aside)
        #expect(names.count == 3)
        let kept = try #require(names.first { open.hasSuffix("/" + $0.prefix { $0 != "." }) })
        #expect(try readBytes("\(aside)/\(kept)") == bytes, "the newer one is there still")
        #expect(try restore(backend, .fail).unchangedCount == 7)
    }

    /// For a moment, at each read of the import: its item is whole, and not in the way.
    @Test(arguments: [EIO, EACCES, ENOMEM, EMFILE, ENFILE]) func whatCannotBeReadForAMomentIsNotSetAside(
        _ code: CInt
    ) throws {
        let other = source.backend()
        try other.write(item("1"), policy: .addOnly)
        try export(other)
        let (own, theirs) = (target.backend(), try item("1", text: "other"))
        for failing in 1...10 {
            try own.write(theirs, policy: .replace)
            let (isUp, calls) = (Protected(false), Protected(0))
            let backend = target.backend(
                SystemCalls { call in
                    guard call == .read, isUp.withLock({ $0 }) else { return nil }
                    return failing...failing + 1 ~= calls.next() ? .failure(code) : nil
                }
            )
            _ = try backend.prefixes()
            isUp.withLock { $0 = true }
            var isImported = false
            let error = lockboxError {
                let report = try restore(backend, .replace)
                isImported = report.isComplete
                #expect(report.importedCount == (isImported ? 1 : 0), "read \(failing)")
            }
            let context = "read \(failing): \(String(describing: error))"
            let found = try own.value(for: theirs.key, now: nil)
            #expect(try found == (isImported ? item("1").value : theirs.value), "\(context)")
            #expect(!FileManager.default.fileExists(atPath: "\(target.directory)/quarantine"), "\(context)")
        }
    }

    /// It may be whole, for a program that can read it.
    @Test(arguments: [ExistingItemPolicy.keep, .replace]) func anItemOfANewerVersionStays(
        _ policy: ExistingItemPolicy
    )
        throws
    {
        let backend = try prepare()
        _ = try export(backend)
        let path = try source.path("1", prefix: "a")
        var bytes = try readBytes(path)
        bytes[4] = 9
        try overwrite(path, bytes)
        let preview = try backend.importBackup(
            from: self.path,
            with: .passphrase(.value("passphrase")),
            existing: policy,
            isDryRun: true
        )
        let report = try restore(backend, policy)
        #expect(preview == report)
        #expect(report.findings.map(\.location) == [path] && !report.isComplete)
        #expect(try readBytes(path) == bytes)
    }

    /// Where nothing can be set aside either, it is named, and the others are imported.
    @Test(arguments: [ExistingItemPolicy.keep, .replace]) func whatCannotBeReplacedIsNamed(
        _ policy: ExistingItemPolicy
    )
        throws
    {
        let backend = try prepare()
        _ = try export(backend)
        try backend.remove(item("3", "b").key)
        let later = try source.path("1", prefix: "a")
        var bytes = try readBytes(later)
        bytes[4] = 9
        try overwrite(later, bytes)
        let link = try source.path("2", prefix: "a")
        try FileManager.default.removeItem(atPath: link)
        try #require(symlink("/etc/passwd", link) == 0)
        // Something else is where things are set aside.
        try overwrite("\(source.directory)/quarantine", [])
        expectError(.unsupportedVersion) { try backend.item(for: item("1").key, now: nil) }

        let report = try restore(backend, policy)
        #expect(
            report.importedCount == 1 && report.unchangedCount == 4 && report.keptKeys.isEmpty
                && !report.isComplete
        )
        #expect(Set(report.findings.map(\.location)) == [later, link])
        #expect(report.findings.contains { $0.reason.contains(#"key "1""#) })
        #expect(try readBytes(later) == bytes)
        #expect(try backend.item(for: item("3", "b").key, now: nil) == item("3", "b", .always))
    }

    /// A locked item is whole.
    @Test(arguments: ExistingItemPolicy.allCases) func aLockedItemIsNotTakenForDamaged(
        _ policy: ExistingItemPolicy
    )
        throws
    {
        try source.backend().write(item("k", "a", .always), policy: .addOnly)
        try export(source.backend())
        let backend = try target.backend().setUp()
        try backend.write(item("k", text: "locked"), policy: .addOnly)
        try backend.lock()
        let before = try target.snapshot()
        expectError(.interactionNotAllowed) { try restore(backend, policy) }
        #expect(try target.snapshot() == before)
    }

    /// The names are whole still, and with them the dates that the item had here.
    @Test func anItemWithADamagedValueBecomesTheBackups() throws {
        let backend = try prepare()
        _ = try export(backend)
        try backend.write(item("1", text: "other"), policy: .replace)
        try source.damage("1", prefix: "a")
        #expect(try restore(backend, .keep).importedCount == 1)
        #expect(try restore(backend, .keep).unchangedCount == 7)
        #expect(try restore(backend, .fail).unchangedCount == 7)
    }

    /// The process that wrote it may have been killed before its own synchronization. One for each prefix is enough.
    @Test(arguments: ExistingItemPolicy.allCases) func anEqualItemIsSynchronized(_ policy: ExistingItemPolicy)
        throws
    {
        _ = try export(prepare())
        #expect(try restore(target.backend()).importedCount == 7)
        let (count, isFailing) = (Protected(0), Protected(false))
        let backend = target.backend(
            SystemCalls { call in
                guard call == .fsync else { return nil }
                count.withLock { $0 += 1 }
                return isFailing.withLock { $0 } ? .failure(EIO) : nil
            }
        )
        #expect(try restore(backend, policy).unchangedCount == 7)
        #expect(count.withLock { $0 } == 2, "two prefixes")
        isFailing.withLock { $0 = true }
        expectError(.outcomeUnknown) { try restore(backend, policy) }
    }

    /// Each value is long enough for a batch of its own. The locked item is in the middle, in whichever direction the file system
    /// lists them, so that some would be written before it is found.
    @Test func anImportIntoALockedClassChangesNothing() throws {
        let other = source.backend()
        let long = String(repeating: "v", count: 1 << 17)
        for number in 0..<21 {
            let accessibility: Accessibility = number == 10 ? .whenUnlocked : .always
            try other.write(item("\(number)", "a", accessibility, text: long), policy: .addOnly)
        }
        try export(other)
        let backend = try target.backend().setUp()
        try backend.lock()
        let before = try target.snapshot()
        expectError(.interactionNotAllowed) { try restore(backend) }
        #expect(try target.snapshot() == before)
    }

    @Test func whatIsLockedAtTheLastMomentIsNotReplaced() throws {
        let other = source.backend()
        let keys = (0..<65).map(String.init)  // one more than a batch
        for key in keys { try other.write(item(key, "a", .always, text: "theirs"), policy: .addOnly) }
        try export(other)
        let own = try target.backend().setUp()
        for key in keys { try own.write(item(key, text: "mine"), policy: .addOnly) }
        expectError(.interactionNotAllowed) {
            try own.importBackup(from: path, with: .passphrase(.value("passphrase")), existing: .replace) {
                _ in
                #expect(throws: Never.self) { try own.lock() }
            }
        }
        try own.unlock(.value("1234"))
        let texts = try own.allItems().map { String(decoding: $0.value.data, as: UTF8.self) }
        #expect(texts.count { $0 == "mine" } == 1 && texts.count { $0 == "theirs" } == 64)
    }

    @Test("Promise 2: a killed import loses nothing, and can be run again")
    func killedImport() throws {
        try export(prepare())
        var number = Interruption.start
        var status: Int32 = -SIGKILL
        while status == -SIGKILL {
            number += Interruption.stride
            let target = try TestStore()
            let own = try item("own", "c")
            try target.backend().write(own, policy: .addOnly)
            status = try TestProcess("die-in", target.directory, "\(number)", "import", path).wait()
            let expected = Set(try migratable() + [own])
            #expect(try target.backend().allItems().isSubset(of: expected), "call \(number)")
            let report = try restore(target.backend(), .fail)
            #expect(report.importedCount + report.unchangedCount == 7, "call \(number)")
            #expect(try target.backend().allItems() == expected, "call \(number)")
        }
        #expect(status == 0)
        #expect(number > 40)
    }

    /// The class that this program requires is too low in one item of many, also where there is no store yet.
    @Test(arguments: [true, false]) func anItemThatIsRefusedChangesNothing(_ isThere: Bool) throws {
        for number in 0..<70 { try source.backend().write(item("\(number)"), policy: .addOnly) }
        try source.backend().write(item("low", "b", .always), policy: .addOnly)
        try export(source.backend())
        if isThere { try target.backend().write(item("own"), policy: .addOnly) }
        let before = isThere ? try target.snapshot() : [:]
        let backend = SealedBackend(
            directory: target.directory,
            requires: StoreRequirements(minimumAccessibility: .afterFirstUnlock)
        )
        for isDryRun in [true, false] {
            let error = lockboxError {
                try backend.importBackup(
                    from: path,
                    with: .passphrase(.value("passphrase")),
                    isDryRun: isDryRun
                )
            }
            #expect(error?.code == .requirementNotMet && "\(error!)".contains("low"))
            if isThere { #expect(try target.snapshot() == before) }
            #expect(FileManager.default.fileExists(atPath: target.directory) == isThere)
        }
    }

    /// The import takes what was verified.
    @Test func aFileThatIsChangedMeanwhileIsRefused() throws {
        let long = String(repeating: "v", count: 1 << 17)
        for number in 0..<3 { try source.backend().write(item("\(number)", text: long), policy: .addOnly) }
        try export(source.backend())
        let first = try readBytes(path)
        for number in 0..<3 {
            try source.backend().write(item("\(number)", text: long + "w"), policy: .replace)
        }
        try FileManager.default.removeItem(atPath: path)
        try export(source.backend())
        let second = try readBytes(path)
        try overwrite(path, first)
        let backend = target.backend()
        let error = lockboxError {
            try backend.importBackup(from: path, with: .passphrase(.value("passphrase"))) { _ in
                try? overwrite(path, second)
            }
        }
        #expect(error?.code == .corrupt && "\(error!)".contains("while"), "\(String(describing: error))")
        #expect(!"\(error!)".contains("Nothing was changed"))
        try overwrite(path, first)
        #expect(try restore(backend).isComplete)
        #expect(try backend.allItems().allSatisfy { $0.value.data.count == long.utf8.count })
    }

    // MARK: Files that are no backups

    @Test func aWrongPassphraseOrADamagedFileChangesNothing() throws {
        let backend = source.backend()
        try backend.write(item("1"), policy: .addOnly)
        try backend.write(item("2"), policy: .addOnly)
        try export(backend)
        let original = try readBytes(path)
        let receiver = target.backend()
        try receiver.write(item("own"), policy: .addOnly)
        let before = try target.snapshot()
        #expect(throws: LockboxError.wrongPasscode) {
            try receiver.importBackup(from: path, with: .passphrase(.value("x")))
        }
        expectError(.storageFailure) {
            try receiver.importBackup(from: path + "-missing", with: .passphrase(.value("x")))
        }

        func expectRefusal(_ bytes: some Sequence<UInt8>, _ what: String) throws {
            try overwrite(path, Array(bytes))
            let found = lockboxError { try restore(receiver) }
            #expect(
                [
                    .corrupt, .authenticationFailed, .wrongPasscode, .notABackup, .invalidPasscode,
                    .notSupported,
                ].contains(
                    found?.code
                ),
                "\(what): \(String(describing: found))"
            )
        }
        for index in original.indices {
            var bytes = original
            bytes[index] ^= 1 << (index % 8)
            try expectRefusal(bytes, "byte \(index)")
        }
        for length in original.indices { try expectRefusal(original[..<length], "length \(length)") }
        try expectRefusal(original + [0], "a byte more")
        #expect(try target.snapshot() == before)
        try overwrite(path, original)
        #expect(try restore(receiver).importedCount == 2, "the control")
    }

    /// The first of two items must not be written before the second one is refused.
    @Test func twoItemsWithOneKey() throws {
        let items = try [item("1"), item("1", text: "another"), item("2")]
        let passphrase = AgeRecipient.passphrase(WipedBytes("passphrase".utf8), workFactor: 1)
        var backup = BackupEncryptor(try AgeEncryptor(to: [passphrase]))
        try overwrite(
            path,
            backup.begin(nil, now) + items.flatMap { backup.encrypt($0) } + backup.finish()
        )
        let backend = target.backend()
        try backend.write(item("mine"), policy: .addOnly)
        let before = try target.snapshot()
        for policy in ExistingItemPolicy.allCases {
            for isDryRun in [true, false] {
                let error = lockboxError {
                    try backend.importBackup(
                        from: path,
                        with: .passphrase(.value("passphrase")),
                        existing: policy,
                        isDryRun: isDryRun
                    )
                }
                #expect(error?.code == .corrupt && "\(error!)".contains("twice"))
            }
        }
        #expect(try target.snapshot() == before)
    }
}
