import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium
@testable import LockboxUserDefaults

@Suite struct MigrationTests {
    private let store: TestStore
    private let lockbox: Lockbox
    private let date = Date(timeIntervalSinceReferenceDate: 801_234_567.890625)

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    private func write(
        _ text: some Sequence<UInt8>,
        _ key: String,
        _ accessibility: Accessibility = .whenUnlocked,
        in lockbox: Lockbox? = nil
    ) throws {
        let lockbox = lockbox ?? self.lockbox
        let item = try StoredItem(
            key: lockbox.itemKey(key),
            value: ArchivedValue(data: Data(text), format: .lockbox2),
            accessibility: accessibility,
            modified: date,
            expires: date + 1e9,
            label: "label of \(key)",
            comment: "comment of \(key)"
        )
        try lockbox.backend.write(item, policy: .replace)
    }

    private func writeAll(in lockbox: Lockbox? = nil) throws {
        try write("t0ken".utf8, "token", .afterFirstUnlock, in: lockbox)
        try write("b-|-a".utf8, "array", in: lockbox)
        try write("b-|-a".utf8, "set", .always, in: lockbox)
        try write("k2-|-k1-|-v2-|-v1".utf8, "dictionary", in: lockbox)
        try write("801234567.890625".utf8, "date", .alwaysThisDeviceOnly, in: lockbox)
    }

    private let all = Migration(
        "all",
        .string("token"),
        .array("array"),
        .set("set"),
        .dictionary("dictionary"),
        .date("date")
    )

    private func expectAll(in lockbox: Lockbox? = nil) throws {
        let lockbox = lockbox ?? self.lockbox
        #expect(try lockbox.unarchiveObject(String.self, forKey: "token") == "t0ken")
        #expect(try lockbox.unarchiveObject([String].self, forKey: "array") == ["b", "a"])
        #expect(try lockbox.unarchiveObject(Set<String>.self, forKey: "set") == ["a", "b"])
        #expect(
            try lockbox.unarchiveObject([String: String].self, forKey: "dictionary") == [
                "k1": "v1", "k2": "v2",
            ]
        )
        #expect(try lockbox.unarchiveObject(Date.self, forKey: "date") == date)
    }

    private func bytes(_ key: String) throws -> StoredItem? {
        try lockbox.backend.item(for: lockbox.itemKey(key), now: nil)
    }

    // MARK: Lockbox 2's items

    @Test func everyTypeOnce() throws {
        try writeAll()
        var progress: [StoreProgress] = []
        let report = try lockbox.migrate(all) { progress.append($0) }
        #expect(report.outcomes.map(\.key) == ["token", "array", "set", "dictionary", "date"])
        #expect(report.outcomes.allSatisfy { $0.outcome == .migrated })
        #expect(report.isComplete)
        #expect(progress.map(\.completed) == [1, 2, 3, 4, 5] && progress.allSatisfy { $0.total == 5 })
        try expectAll()

        let token = try #require(try lockbox.attributes(forKey: "token"))
        #expect(token.accessibility == .afterFirstUnlock)
        #expect(token.created == date)
        #expect(token.expires == date + 1e9)
        #expect(token.label == "label of token")
        #expect(token.comment == "comment of token")

        // Again, by a process that has just started: nothing is done, not even written.
        let before = try store.snapshot()
        let again = try store.lockbox().migrate(all)
        #expect(again.outcomes.allSatisfy { $0.outcome == .doneBefore })
        #expect(try store.snapshot() == before)
        try expectAll()
    }

    @Test func onAnyBackend() throws {
        let lockbox = try Lockbox(keyPrefix: "com.example.memory", backend: InMemoryBackend())
        try writeAll(in: lockbox)
        #expect(try lockbox.migrate(all).outcomes.allSatisfy { $0.outcome == .migrated })
        try expectAll(in: lockbox)
        #expect(try lockbox.migrate(all).outcomes.allSatisfy { $0.outcome == .doneBefore })
    }

    @Test(
        arguments: [
            (.array("k"), "a-|-|-b"), (.array("k"), "a-|-\u{301}b"), (.dictionary("k"), "a-|-b-|-c"),
            (.dictionary("k"), ""), (.dictionary("k"), "a-|-a-|-1-|-2"), (.set("k"), "a-|-a"),
            (.date("k"), "soon"),
            (.date("k"), ""), (.date("k"), "nan"), (.archive("k", as: String.self), "text"),
            (.value("k", as: String.self), "text"), (.json("k", as: Int.self), "\"s3cret\""),
        ] as [(Migration.Item, String)]
    )
    func whatIsRefusedStaysAsItIs(_ item: Migration.Item, _ text: String) throws {
        try write(text.utf8, "k", .afterFirstUnlock)
        try write("fine".utf8, "other")
        let before = try bytes("k")
        let migration = Migration("refusing", items: [item, .string("other")])
        for run in 1...2 {
            let report = try lockbox.migrate(migration)
            #expect(report.refused.keys.sorted() == ["k"], "run \(run)")
            #expect(!report.isComplete)
            #expect(report["other"] == (run == 1 ? .migrated : .doneBefore))
            #expect(!report.description.contains("s3cret"))
            #expect(try bytes("k") == before)
        }
        #expect(try lockbox.unarchiveObject(String.self, forKey: "other") == "fine")
    }

    @Test func textThatIsNotUTF8IsRefused() throws {
        try write([0xC3, 0x28], "k")
        let report = try lockbox.migrate(Migration("m", .string("k"), .data("absent")))
        #expect(report["k"] == .refused(.malformed(reason: "it is not UTF-8")))
        #expect(report["absent"] == .absent)
        // Its bytes are still to be had.
        #expect(try lockbox.migrate(Migration("bytes", .data("k")))["k"] == .migrated)
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "k") == Data([0xC3, 0x28]))
    }

    /// What the app has mended is migrated by the next run; what was done is not done again.
    @Test func theNextRunTriesAgainWhatWasRefused() throws {
        try write("soon".utf8, "date")
        try write("t".utf8, "token")
        let migration = Migration("m", .date("date"), .string("token"))
        #expect(try lockbox.migrate(migration).refused.keys.sorted() == ["date"])
        try write("1.5".utf8, "date")
        try write("old again".utf8, "token")
        let report = try lockbox.migrate(migration)
        #expect(report["date"] == .migrated)
        #expect(report["token"] == .doneBefore)
        #expect(try bytes("token")?.value.format == .lockbox2)
    }

    /// Say on a disk that is not there yet.
    @Test func whatIsAbsentMayCome() throws {
        try write("t".utf8, "token")
        let migration = Migration("m", .string("token"), .string("later"))
        #expect(try lockbox.migrate(migration)["later"] == .absent)
        let before = try store.snapshot()
        #expect(try lockbox.migrate(migration)["later"] == .absent)
        #expect(try store.snapshot() == before, "nothing is written for it")
        try write("l".utf8, "later")
        let report = try lockbox.migrate(migration)
        #expect(report["later"] == .migrated && report["token"] == .doneBefore)
    }

    @Test func oneDamagedItemDoesNotHoldUpTheOthers() throws {
        try write("a".utf8, "a")
        try write("b".utf8, "b")
        let path = try store.path("a")
        var record = try readBytes(path)
        record[record.count - 1] ^= 1
        try overwrite(path, record)
        let report = try lockbox.migrate(Migration("m", .string("a"), .string("b")))
        #expect(report.refused.keys.sorted() == ["a"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "b") == "b")
        #expect(try readBytes(path) == record)
    }

    @Test func aClassThatTheStoreDoesNotHaveIsRefused() throws {
        try write("a".utf8, "a")
        try write("b".utf8, "b")
        let migration = Migration(
            "m",
            .string("a", accessibility: .whenPasscodeSetThisDeviceOnly),
            .string("b", to: "c", accessibility: .whenPasscodeSetThisDeviceOnly),
            .string("absent")
        )
        let preview = try lockbox.migrate(migration, dryRun: true)
        #expect(try lockbox.migrate(migration).refused.keys.sorted() == ["a", "b"])
        #expect(preview.refused.keys.sorted() == ["a", "b"])
        #expect(try bytes("a")?.value.format == .lockbox2)
        #expect(try bytes("b")?.value.format == .lockbox2)
    }

    @Test(
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/setfacl"), "there is no setfacl")
    )
    func aFileWithAnAccessControlListIsRefused() throws {
        let path = try file("app.env", "A=1\n".utf8)
        let process = try Process.run(
            URL(fileURLWithPath: "/usr/bin/setfacl"),
            arguments: ["-m", "u:65534:r", path]
        )
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        let migration = Migration("m", from: .environmentFile(at: path), .string("A"))
        expectError(.unsafePermissions) { try lockbox.migrate(migration) }
        #expect(try text(path) == "A=1\n")
    }

    @Test func anotherKeyAndClass() throws {
        try write("t".utf8, "old", .always)
        try write("u".utf8, "other", .always)
        let migration = Migration(
            "m",
            .string("old", to: "new"),
            .string("other", accessibility: .whenUnlockedThisDeviceOnly)
        )
        #expect(try lockbox.migrate(migration).isComplete)
        #expect(try lockbox.allKeys() == ["new", "other"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "new") == "t")
        #expect(try lockbox.attributes(forKey: "new")?.accessibility == .always)
        #expect(try lockbox.attributes(forKey: "new")?.created == date)
        #expect(try lockbox.attributes(forKey: "other")?.accessibility == .whenUnlockedThisDeviceOnly)
    }

    @Test func oldItemsCanBeKept() throws {
        try write("t".utf8, "old")
        let migration = Migration("m", .string("old", to: "new"), keepsOldItems: true)
        #expect(try lockbox.migrate(migration)["old"] == .migrated)
        #expect(try bytes("old")?.value.data == Data("t".utf8))
        // Deleted in its new form, it does not come back from the old one.
        try lockbox.removeObject(forKey: "new")
        #expect(try lockbox.migrate(migration)["old"] == .doneBefore)
        #expect(try !lockbox.containsObject(forKey: "new"))
    }

    @Test func whatIsNewIsNeverOverwritten() throws {
        try write("old".utf8, "a")
        try lockbox.archiveObject("new", forKey: "b")
        try lockbox.archiveObject("new", forKey: "c")
        let report = try lockbox.migrate(Migration("m", .string("a", to: "b"), .string("c")))
        #expect(report["a"] == .refused(.destinationTaken))
        #expect(report["c"] == .alreadyNew)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "b") == "new")
        #expect(try bytes("a")?.value.data == Data("old".utf8))
    }

    /// Dictionaries and sets have no order: the same value may have other bytes.
    @Test func aNewItemOfTheSameValueIsOneOfAnInterruptedRun() throws {
        let dictionary = Dictionary(uniqueKeysWithValues: (0..<50).map { ("k\($0)", "v\($0)") })
        try write(Lockbox2Text.text(dictionary).utf8, "a")
        let json = dictionary.keys.sorted(by: >).map { "\"\($0)\":\"\(dictionary[$0]!)\"" }
        let value = try ArchivedValue(data: Data("{\(json.joined(separator: ", "))}".utf8), format: .json)
        try lockbox.backend.write(
            StoredItem(key: lockbox.itemKey("b"), value: value, modified: date),
            policy: .replace
        )
        #expect(try lockbox.migrate(Migration("m", .dictionary("a", to: "b")))["a"] == .migrated)
        #expect(try bytes("a") == nil)
        #expect(try bytes("b")?.value == value)
    }

    @Test func aDryRunTellsAndDoesNothing() throws {
        try writeAll()
        try write("soon".utf8, "when")
        try lockbox.archiveObject("x", forKey: "new")
        let migration = Migration(
            "all",
            items: all.items + [.date("when"), .string("new"), .string("absent")]
        )
        let before = try store.snapshot()
        let report = try lockbox.migrate(migration, dryRun: true)
        #expect(report.isDryRun)
        #expect(try store.snapshot() == before)
        let real = try lockbox.migrate(migration)
        #expect(real.outcomes.map(\.outcome) == report.outcomes.map(\.outcome))
        #expect(try lockbox.migrate(migration, dryRun: true)["token"] == .doneBefore)
    }

    @Test func noAppSeesTheRecord() throws {
        try write("t".utf8, "token")
        try lockbox.migrate(Migration("token", .string("token")))
        #expect(try lockbox.allKeys() == ["token"])
        #expect(try lockbox.backend.prefixes() == [TestStore.prefix])
        #expect(try lockbox.backend.attributes(prefix: TestStore.prefix, now: date).count == 1)
        try lockbox.removeAllObjects()
        try write("t".utf8, "token")
        #expect(try lockbox.migrate(Migration("token", .string("token")))["token"] == .doneBefore)
        // Another prefix's migration is another one, and so is one of another name.
        let other = try store.lockbox("com.example.other")
        try write("t".utf8, "token", in: other)
        #expect(try other.migrate(Migration("token", .string("token")))["token"] == .migrated)
        #expect(try lockbox.migrate(Migration("token 2", .string("token")))["token"] == .migrated)

        let backend = store.backend()
        let backup = "\(store.directory).backup"
        let report = try backend.exportBackup(to: backup, passphrase: .value("p"), strength: .interactive)
        #expect(report.exported == 2 && report.leftOut.isEmpty)
        #expect(try backend.verify().findings.isEmpty)
    }

    /// An import that somebody asks for is done each time.
    @Test func withoutANameItIsNotRemembered() throws {
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let source = MigrationSource.environmentFile(at: path)
        #expect(try lockbox.keys(of: source) == ["A", "B"])
        let migration = Migration(nil, from: source, .string("A"), .string("B"), keepsOldItems: true)
        #expect(try lockbox.migrate(migration).isComplete)
        try lockbox.removeObject(forKey: "A")
        try lockbox.archiveObject("3", forKey: "B")
        #expect(try lockbox.migrate(migration, dryRun: true)["A"] == .migrated)
        let again = try lockbox.migrate(migration)
        #expect(again["A"] == .migrated && again["B"] == .refused(.destinationTaken))
        #expect(try lockbox.unarchiveObject(String.self, forKey: "A") == "1")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "B") == "3")
        try write("t".utf8, "old")
        #expect(try lockbox.keys(of: .store) == ["old"])
        #expect(try lockbox.keys(of: .items(["b": Data(), "a": Data()])) == ["a", "b"])
    }

    @Test func aRecordOfALaterVersionIsNotTouched() throws {
        try write("t".utf8, "token")
        let key = try MigrationRecord.key(ofMigration: "m", prefix: TestStore.prefix)
        let value = try ArchivedValue(data: Data(#"{"version":2,"done":["x"]}"#.utf8), format: .json)
        try lockbox.backend.write(StoredItem(key: key, value: value, modified: date), policy: .replace)
        let error = lockboxError { try lockbox.migrate(Migration("m", .string("token"))) }
        #expect(error?.code == .unsupportedVersion)
        #expect(try lockbox.backend.value(for: key, now: date) == value)
        #expect(try bytes("token")?.value.format == .lockbox2)
    }

    /// Whatever it looks like.
    @Test func aRecordOfALaterVersionIsKnownByItsVersion() throws {
        let key = try MigrationRecord.key(ofMigration: "m", prefix: TestStore.prefix)
        let value = try ArchivedValue(data: Data(#"{"version":2,"items":{}}"#.utf8), format: .json)
        try lockbox.backend.write(StoredItem(key: key, value: value, modified: date), policy: .replace)
        let error = lockboxError { try lockbox.migrate(Migration("m", .string("token"))) }
        #expect(error?.code == .unsupportedVersion)
    }

    @Test(arguments: ["p", "\u{FB2C}"]) func thePrefixMayBeAsLongAsAnyMayBe(_ character: String) throws {
        let length = character.canonical.utf8.count
        let prefix = String(repeating: character, count: ItemKey.maximumLength / length)
        let lockbox = try store.lockbox(prefix)
        try write("t".utf8, "k", in: lockbox)
        let name = String(repeating: "n", count: ItemKey.maximumLength)
        #expect(try lockbox.migrate(Migration(name, .string("k")))["k"] == .migrated)
        #expect(try lockbox.migrate(Migration(name, .string("k")))["k"] == .doneBefore)
        // Another long one has its own record.
        let other = try store.lockbox("q" + prefix.dropFirst())
        try write("t".utf8, "k", in: other)
        #expect(try other.migrate(Migration(name, .string("k")))["k"] == .migrated)
        #expect(try lockbox.backend.prefixes() == [prefix, other.keyPrefix])
    }

    @Test func whereARecordIs() throws {
        let key = try MigrationRecord.key(ofMigration: "m", prefix: "com.example")
        #expect(key.prefix == "\0migration\0com.example" && key.key == "m")
        let longest = String(repeating: "p", count: 4085)
        #expect(
            try MigrationRecord.key(ofMigration: "m", prefix: longest).prefix == "\0migration\0\(longest)"
        )
    }

    @Test func migrationsThatContradictThemselves() throws {
        try write("t".utf8, "a")
        let before = try store.snapshot()
        for migration in [
            Migration("", .string("a")),
            Migration("m", .string("a"), .data("a")),
            Migration("m", .string("a", to: "c"), .string("b", to: "c")),
            Migration("m", .string("a", to: "b"), .string("b", to: "c")),
            Migration("m", .string("a"), keepsOldItems: true),
            Migration("m", .string("")),
            Migration("m", .string("a", to: "")),
        ] {
            expectError(.invalidKey) { try lockbox.migrate(migration) }
        }
        #expect(try store.snapshot() == before)
    }

    @Test func aLockedItemStopsItBeforeAnythingIsWritten() throws {
        let backend = store.backend()
        try backend.setPasscode(.value("1234"), strength: .interactive)
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
        try write("a".utf8, "a", .always, in: lockbox)
        try write("b".utf8, "b", .whenUnlocked, in: lockbox)
        try backend.lock()
        let before = try store.snapshot()
        let migration = Migration("m", .string("a"), .string("b"))
        expectError(.interactionNotAllowed) { try lockbox.migrate(migration) }
        let after = try store.snapshot()
        #expect(before.allSatisfy { after[$0.key] == $0.value })
        #expect(try lockbox.allKeys() == ["a", "b"])
        try backend.unlock(.value("1234"))
        #expect(try lockbox.migrate(migration).isComplete)
    }

    /// The new class of one item is open, that of the other is not.
    @Test func aLockedClassStopsItBeforeAnythingIsWritten() throws {
        let backend = store.backend()
        try backend.setPasscode(.value("1234"), strength: .interactive)
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let migration = Migration(
            "m",
            from: .environmentFile(at: path),
            .string("A", accessibility: .always),
            .string("B")
        )
        try backend.lock()
        let before = try store.snapshot()
        // Also behind a backend of which nobody knows whether it is locked.
        for backend: any LockboxBackend in [backend, Hooked(wrapped: backend)] {
            let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
            expectError(.interactionNotAllowed) { try lockbox.migrate(migration) }
            #expect(try lockbox.allKeys().isEmpty)
        }
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
        expectError(.interactionNotAllowed) { try lockbox.migrate(migration, dryRun: true) }
        let after = try store.snapshot()
        #expect(before.allSatisfy { after[$0.key] == $0.value })
        #expect(try text(path) == "A=1\nB=2\n")
        try backend.unlock(.value("1234"))
        #expect(try lockbox.migrate(migration).isComplete)
    }

    @Test(arguments: LockState.allCases) func whatIsOpenInEachState(_ state: LockState) throws {
        let backend = store.backend()
        try lockbox.archiveObject(0, forKey: "there is a store")
        if state != .noPasscode { try backend.setPasscode(.value("1234"), strength: .interactive) }
        if state == .locked { try backend.lock() }
        let isFresh = state == .beforeFirstUnlock
        let lockbox = try Lockbox(
            keyPrefix: TestStore.prefix,
            backend: isFresh ? store.backend() : backend
        )
        for accessibility in Accessibility.allCases {
            let key = accessibility.rawValue
            let migration = Migration(
                nil,
                from: .items([key: Data("t".utf8)]),
                .string(key, accessibility: accessibility)
            )
            let dry = Result { try lockbox.migrate(migration, dryRun: true).outcomes.map(\.outcome) }
            let write = lockboxError {
                try lockbox.archiveObject("t", forKey: "\(key) 2", accessibility: accessibility)
            }
            let real = Result { try lockbox.migrate(migration).outcomes.map(\.outcome) }
            switch (dry, real) {
            case (.success(let dry), .success(let real)):
                #expect(dry == real)
                #expect((write == nil) == (real == [.migrated]))
                #expect(write == nil || write?.code == .passcodeNotSet)
            case (.failure, .failure): #expect(write?.code == .interactionNotAllowed)
            default: Issue.record("the dry run of \(accessibility) says something else")
            }
        }
    }

    // MARK: Bad luck

    /// From the N-th system call on nothing works any more, as for a process that is killed there.
    @Test(arguments: [false, true])
    func interruptedAtEverySystemCall(_ isRenamed: Bool) throws {
        let items: [Migration.Item] = (0..<3).map { .string("k\($0)", to: isRenamed ? "new\($0)" : nil) }
        let migration = Migration("m", items: items)
        for key in 0..<3 { try write("value \(key)".utf8, "k\(key)") }
        var calls = 0
        var isDone = false
        while !isDone {
            calls += 1
            let store = try TestStore()
            try FileManager.default.copyItem(atPath: self.store.directory, toPath: store.directory)
            let dying = SystemCalls.failing(from: calls)
            isDone = (try? store.lockbox(TestStore.prefix, dying).migrate(migration)) != nil

            let lockbox = try store.lockbox()
            let report = try MigrationClaim.$patience.withValue(.milliseconds(20)) {
                try lockbox.migrate(migration)
            }
            #expect(report.isComplete, "call \(calls)")
            #expect(try lockbox.allKeys() == Set(items.map(\.newKey)), "call \(calls)")
            for key in 0..<3 {
                let value = try lockbox.unarchiveObject(String.self, forKey: items[key].newKey)
                #expect(value == "value \(key)", "call \(calls)")
            }
            #expect(try store.leftovers().isEmpty, "call \(calls)")
        }
        #expect(calls > 40)
    }

    private func claim(_ patience: Duration = .milliseconds(100)) throws -> MigrationClaim {
        try MigrationClaim.$patience.withValue(patience) {
            try MigrationClaim(
                MigrationRecord.key(ofMigration: "m", prefix: TestStore.prefix),
                store.backend(),
                now: Date()
            )
        }
    }

    @Test func whoWasKilledIsNotWaitedForLong() throws {
        try write("value".utf8, "k")
        _ = try claim()
        let start = ContinuousClock.now
        let report = try MigrationClaim.$patience.withValue(.milliseconds(300)) {
            try store.lockbox().migrate(Migration("m", .string("k")))
        }
        #expect(report["k"] == .migrated)
        #expect(.now - start >= .milliseconds(300))
    }

    @Test func whoWasStoppedDoesNotGoOnBesideAnother() throws {
        let stopped = try claim()
        let next = try claim()
        sleep(1)
        expectError(.conflict) { try stopped.renew() }
        expectError(.conflict) { try stopped.release(done: ["k"]) }
        try next.release(done: ["other"])
        #expect(try claim().record.done == ["other"])
    }

    @Test func whoIsAtWorkIsWaitedFor() throws {
        let working = try claim()
        let isOver = Protected(false)
        let waiting = Thread {
            _ = try? self.claim(.milliseconds(1500))
            isOver.withLock { $0 = true }
        }
        waiting.start()
        for _ in 0..<3 {
            usleep(1_050_000)
            try working.renew()
            #expect(!isOver.withLock { $0 })
        }
        try working.release()
        while !isOver.withLock({ $0 }) { usleep(10_000) }
    }

    @Test func runByManyAtOnceItHappensOnce() throws {
        try writeAll()
        let outcomes = Protected<[[MigrationReport.Outcome]]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            do {
                let storage = FileStorage(
                    directory: store.directory,
                    calls: SystemCalls(),
                    lockTimeout: .seconds(60)
                )
                let lockbox = try Lockbox(
                    keyPrefix: TestStore.prefix,
                    backend: SealedBackend(storage: storage)
                )
                let report = try lockbox.migrate(all)
                outcomes.withLock { $0.append(report.outcomes.map(\.outcome)) }
            } catch { Issue.record(error) }
        }
        let done = outcomes.withLock { $0 }
        #expect(done.count == 8)
        #expect(done.count { $0.allSatisfy { $0 == .migrated } } == 1)
        #expect(done.count { $0.allSatisfy { $0 == .doneBefore } } == 7)
        try expectAll()
    }

    /// All of them wait for the same instant.
    @Test(.timeLimit(.minutes(10))) func runByManyProcessesAtOnceItHappensOnce() throws {
        for _ in 0..<3 {
            let store = try TestStore()
            let lockbox = try store.lockbox("com.example.process")
            for number in 0..<50 { try write("value \(number)".utf8, "k\(number)", in: lockbox) }
            let processes = try (0..<8).map { _ in try TestProcess("migrate", store.directory) }
            processes.forEach { $0.endInput() }
            #expect(processes.map { $0.wait() }.sorted() == [0, 4, 4, 4, 4, 4, 4, 4])
            for number in 0..<50 {
                let value = try lockbox.unarchiveObject(String.self, forKey: "k\(number)")
                #expect(value == "value \(number)")
            }
            #expect(try store.leftovers() == [])
        }
    }

    // MARK: Other sources

    private struct User: Codable, Equatable {
        var name: String
        var visits: Int
        var seen: Date
    }

    private func archive(_ object: Any, _ key: String) -> Data {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        archiver.encode(object, forKey: key)
        archiver.finishEncoding()
        return archiver.encodedData
    }

    @Test func archivesOfLockbox3AndStrongbox() throws {
        let user = User(name: "alice", visits: 3, seen: date)
        let items = [
            "name": archive("alice" as NSString, "name"),
            "seen": archive(date as NSDate, "seen"),
            "user": archive(["name": "alice", "visits": 3, "seen": date] as NSDictionary, "user"),
            "boxed": archive(try JSONEncoder().encode(user) as NSData, "boxed"),
            "root": try NSKeyedArchiver.archivedData(
                withRootObject: "r" as NSString,
                requiringSecureCoding: true
            ),
            "strange": archive(NSTimeZone(forSecondsFromGMT: 0), "strange"),
            "other key": archive("x" as NSString, "y"),
            "cut": archive("alice" as NSString, "cut").dropLast(),
            "empty": Data(),
        ]
        let removed = Protected<Set<String>>([])
        let migration = Migration(
            "from Lockbox 3",
            from: .items(items) { keys in removed.withLock { $0 = keys } },
            .archive("name", as: String.self),
            .archive("seen", as: Date.self, accessibility: .always),
            .archive("user", as: User.self),
            .strongbox("boxed", as: User.self),
            .archive("root", as: String.self, topKey: "root"),
            .archive("strange", as: String.self),
            .archive("other key", as: String.self),
            .archive("cut", as: String.self),
            .archive("empty", as: String.self),
            .archive("absent", as: String.self)
        )
        let report = try lockbox.migrate(migration)
        #expect(report.refused.keys.sorted() == ["cut", "empty", "other key", "strange"])
        #expect(report["strange"] == .refused(.unknownClass("NSTimeZone")))
        #expect(report["absent"] == .absent)
        #expect(removed.withLock { $0 } == ["name", "seen", "user", "boxed", "root"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "name") == "alice")
        #expect(try lockbox.unarchiveObject(Date.self, forKey: "seen") == date)
        #expect(try lockbox.attributes(forKey: "seen")?.accessibility == .always)
        #expect(try lockbox.unarchiveObject(User.self, forKey: "user") == user)
        #expect(try lockbox.unarchiveObject(User.self, forKey: "boxed") == user)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "root") == "r")
    }

    /// Of foreign bytes it is not known whether they are of a version that wrote `[]` so.
    @Test func anEmptyCollectionOfForeignBytesIsRefused() throws {
        let migration = Migration(
            "m",
            from: .items(["array": Data(), "set": Data(), "string": Data(), "data": Data([1])]),
            .array("array"),
            .set("set"),
            .string("string"),
            .data("data")
        )
        let report = try lockbox.migrate(migration)
        #expect(report.refused.keys.sorted() == ["array", "set"])
        #expect(try lockbox.unarchiveObject(String.self, forKey: "string") == "")
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "data") == Data([1]))
        try write([], "own")
        #expect(try lockbox.migrate(Migration("own", .array("own")))["own"] == .migrated)
        #expect(try lockbox.unarchiveObject([String].self, forKey: "own") == [""])
    }

    private func file(_ name: String, _ bytes: some Sequence<UInt8>, mode: Int = 0o600) throws -> String {
        let path = "\(Path.parent(of: store.directory))/\(name)"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    private func text(_ path: String) throws -> String {
        String(decoding: try readBytes(path), as: UTF8.self)
    }

    @Test func anEnvironmentFile() throws {
        let path = try file("env", "# keys\nPORT=80\nTOKEN=\"s3cret\"\nDEBUG=1\n".utf8, mode: 0o640)
        let migration = Migration(
            "m",
            from: .environmentFile(at: path),
            .string("TOKEN", to: "token"),
            .string("NONE")
        )
        #expect(try lockbox.migrate(migration, dryRun: true)["TOKEN"] == .migrated)
        #expect(try text(path).contains("s3cret"))
        let report = try lockbox.migrate(migration)
        #expect(report["TOKEN"] == .migrated && report["NONE"] == .absent)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "token") == "s3cret")
        #expect(try text(path) == "# keys\nPORT=80\nDEBUG=1\n")
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o640)
        let names = try FileManager.default.contentsOfDirectory(atPath: Path.parent(of: path))
        #expect(names.sorted() == ["env", "store"])
    }

    @Test func aNetrcFile() throws {
        struct Login: Codable, Equatable { var machine, login, password: String }
        let path = try file(
            "netrc",
            "machine a.example login al password s3cret\nmachine b.example login b password p\n".utf8
        )
        let migration = Migration(
            "m",
            from: .netrc(at: path),
            .value("al@a.example", as: Login.self, to: "a")
        )
        #expect(try lockbox.migrate(migration).isComplete)
        let login = try lockbox.unarchiveObject(Login.self, forKey: "a")
        #expect(login == Login(machine: "a.example", login: "al", password: "s3cret"))
        #expect(try text(path) == "machine b.example login b password p\n")
    }

    /// It would be gone with the old entry.
    @Test func whatTheTypeDoesNotHaveIsNotLost() throws {
        struct Login: Codable { var machine, login, password: String }
        let reason = "it cannot be read without loss: the type does not decode all of the data"
        let lost = MigrationRefusal.ambiguous(reason: reason)
        let path = try file("netrc", "machine a.example login al password s3cret account billing\n".utf8)
        let migration = Migration(
            "m",
            from: .netrc(at: path),
            .value("al@a.example", as: Login.self, to: "a")
        )
        #expect(
            try lockbox.migrate(migration)["al@a.example"] == .refused(lost)
        )
        #expect(try text(path).contains("billing"))

        let removed = Protected<Set<String>>([])
        let archive = archive(
            ["machine": "a", "login": "b", "password": "c", "pin": "4"] as NSDictionary,
            "k"
        )
        let source = MigrationSource.items(["k": archive]) { keys in removed.withLock { $0 = keys } }
        let report = try lockbox.migrate(Migration("n", from: source, .archive("k", as: Login.self)))
        #expect(report["k"] == .refused(lost))
        #expect(removed.withLock { $0 }.isEmpty)
    }

    /// `archiveObject:nil` of Lockbox 3 left an archive of nothing.
    @Test func whatLockbox3DidNotRemoveIsAbsent() throws {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        archiver.encode(nil, forKey: "session")
        archiver.finishEncoding()
        let removed = Protected<Set<String>>([])
        let source = MigrationSource.items(["session": archiver.encodedData]) { keys in
            removed.withLock { $0 = keys }
        }
        for item in [
            Migration.Item.archive("session", as: String.self), .archive("session", as: String?.self),
            .strongbox("session", as: User.self),
        ] {
            let report = try lockbox.migrate(Migration("m", from: source, items: [item]))
            #expect(report["session"] == .absent && report.isComplete)
        }
        #expect(removed.withLock { $0 }.isEmpty)
        #expect(try lockbox.allKeys().isEmpty)
        try lockbox.archiveObject("new", forKey: "session")
        let report = try lockbox.migrate(Migration("m", from: source, .archive("session", as: String.self)))
        #expect(report["session"] == .alreadyNew)
    }

    @Test func aJSONFile() throws {
        let path = try file(
            "config.json",
            #"{ "port": 80, "user": {"name":"al","visits":3,"seen":1.5}, "x": [1] }"#.utf8
        )
        struct Visitor: Codable, Equatable { var name: String; var visits: Int; var seen: Double }
        let migration = Migration(
            "m",
            from: .json(at: path),
            .value("user", as: Visitor.self),
            .string("port"),
            .value("x", as: [Int].self),
            keepsOldItems: false
        )
        let report = try lockbox.migrate(migration)
        #expect(report["port"] == .refused(.wrongType(expected: "String")))
        #expect(
            try lockbox.unarchiveObject(Visitor.self, forKey: "user")
                == Visitor(name: "al", visits: 3, seen: 1.5)
        )
        #expect(try lockbox.unarchiveObject([Int].self, forKey: "x") == [1])
        let rest = try JSONSerialization.jsonObject(with: Data(readBytes(path))) as? [String: Int]
        #expect(rest == ["port": 80])
    }

    @Test(arguments: [PropertyListSerialization.PropertyListFormat.xml, .binary])
    func aPropertyList(_ format: PropertyListSerialization.PropertyListFormat) throws {
        let list: [String: Any] = [
            "password": "s3cret", "pin": Data([1, 2]), "last": Date(timeIntervalSinceReferenceDate: 86_400),
            "window": ["x": 1, "y": 2], "on": true,
        ]
        let data = try PropertyListSerialization.data(fromPropertyList: list, format: format, options: 0)
        let path = try file("app.plist", data)
        let migration = Migration(
            "m",
            from: .propertyList(at: path),
            .string("password"),
            .data("pin"),
            .date("last"),
            .value("on", as: Bool.self),
            .value("pin 2", as: Data.self)
        )
        let report = try lockbox.migrate(migration)
        #expect(report.isComplete && report["pin 2"] == .absent)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "password") == "s3cret")
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "pin") == Data([1, 2]))
        #expect(
            try lockbox.unarchiveObject(Date.self, forKey: "last")
                == Date(timeIntervalSinceReferenceDate: 86_400)
        )
        #expect(try lockbox.unarchiveObject(Bool.self, forKey: "on") == true)
        let left = try PropertyListSerialization.propertyList(from: Data(readBytes(path)), format: nil)
        #expect(left as? [String: [String: Int]] == ["window": ["x": 1, "y": 2]])
    }

    @Test func userDefaults() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        defaults.set("s3cret", forKey: "password")
        defaults.set(42, forKey: "answer")
        defaults.set(true, forKey: "on")
        defaults.set(1.5, forKey: "ratio")
        defaults.set(["a", "b"], forKey: "list")
        defaults.set(["k": "v"], forKey: "map")
        defaults.set(Data([1]), forKey: "data")
        // Foundation's own file keeps whole seconds, and no sign of a zero.
        let second = Date(timeIntervalSinceReferenceDate: 801_234_567)
        defaults.set(second, forKey: "date")
        defaults.set(archive("r" as NSString, "root"), forKey: "archive")
        defaults.set("stays", forKey: "other")
        let migration = Migration(
            "m",
            from: .userDefaults(suiteName: suite),
            .string("password"),
            .value("answer", as: Int.self),
            .value("on", as: Bool.self),
            .value("ratio", as: Double.self),
            .array("list"),
            .dictionary("map"),
            .data("data"),
            .date("date"),
            .archive("archive", as: String.self, topKey: "root"),
            .value("none", as: Int.self)
        )
        let report = try lockbox.migrate(migration)
        #expect(report.isComplete, "\(report)")
        #expect(report["none"] == .absent)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "password") == "s3cret")
        #expect(try lockbox.unarchiveObject(Int.self, forKey: "answer") == 42)
        #expect(try lockbox.unarchiveObject(Bool.self, forKey: "on") == true)
        #expect(try lockbox.unarchiveObject(Double.self, forKey: "ratio") == 1.5)
        #expect(try lockbox.unarchiveObject([String].self, forKey: "list") == ["a", "b"])
        #expect(try lockbox.unarchiveObject([String: String].self, forKey: "map") == ["k": "v"])
        #expect(try lockbox.unarchiveObject(Data.self, forKey: "data") == Data([1]))
        #expect(try lockbox.unarchiveObject(Date.self, forKey: "date") == second)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "archive") == "r")
        let left = try #require(UserDefaults(suiteName: suite))
        #expect(left.object(forKey: "password") == nil && left.string(forKey: "other") == "stays")
    }

    @Test func aNumberKeepsTheSignOfAZero() throws {
        let value = try PropertyValue(object: NSNumber(value: -0.0), depth: 0)
        #expect(try value.decode(Double.self).sign == .minus)
        #expect(try PropertyValue(object: NSNumber(value: 0.0), depth: 0).decode(Double.self).sign == .plus)
    }

    /// It says what a setting is while there is none, and could not be removed.
    @Test func aRegisteredDefaultIsAbsent() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        let keys = ["\(suite) registered", "\(suite) stored"]
        defer {
            defaults.removePersistentDomain(forName: suite)
            UserDefaults.standard.removeObject(forKey: keys[1])
        }
        for (defaults, name) in [(UserDefaults.standard, nil), (defaults, suite)] {
            defaults.register(defaults: [keys[0]: "none", keys[1]: "none"])
            defaults.set("s3cret", forKey: keys[1])
            let source = MigrationSource.userDefaults(suiteName: name)
            let migration = Migration(nil, from: source, items: keys.map { .string($0) })
            let report = try lockbox.migrate(migration)
            #expect(report[keys[0]] == .absent)
            #expect(report[keys[1]] == .migrated)
            #expect(defaults.string(forKey: keys[0]) == "none")
            #expect(defaults.string(forKey: keys[1]) == "none")
            #expect(try !lockbox.keys(of: source).contains(keys[0]))
            #expect(try lockbox.unarchiveObject(String.self, forKey: keys[1]) == "s3cret")
            try lockbox.removeAllObjects()
        }
    }

    /// Each reading of a dictionary may have another order.
    @Test func aDictionaryInUserDefaultsIsRemoved() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        let map = Dictionary(uniqueKeysWithValues: (0..<100).map { ("k\($0)", "v\($0)") })
        defaults.set(map, forKey: "map")
        let migration = Migration("m", from: .userDefaults(suiteName: suite), .dictionary("map"))
        #expect(try lockbox.migrate(migration)["map"] == .migrated)
        #expect(defaults.object(forKey: "map") == nil)
        #expect(try lockbox.unarchiveObject([String: String].self, forKey: "map") == map)
    }

    @Test func anotherBackend() throws {
        let old = try Lockbox(keyPrefix: "com.example.old", backend: InMemoryBackend())
        try writeAll(in: old)
        try old.archiveObject("new already", forKey: "new")
        let source = MigrationSource.backend(old.backend, keyPrefix: "com.example.old")
        let report = try lockbox.migrate(Migration("m", from: source, items: all.items + [.string("new")]))
        #expect(report["new"] == .absent, "\(report)")
        #expect(report["token"] == .migrated)
        try expectAll()
        #expect(try lockbox.attributes(forKey: "token")?.label == "label of token")
        #expect(try old.allKeys() == ["new"])
    }

    @Test func filesThatCannotBeUsed() throws {
        let absent = Migration("m", from: .json(at: "\(store.directory)/absent.json"), .string("k"))
        #expect(try lockbox.migrate(absent)["k"] == .absent)

        let malformed = try file("bad.json", "{\"k\": \"s3cret\"".utf8)
        let error = lockboxError {
            try lockbox.migrate(Migration("n", from: .json(at: malformed), .string("k")))
        }
        #expect(error?.code == .corrupt)
        #expect(error?.description.contains("s3cret") == false)
        #expect(try text(malformed) == "{\"k\": \"s3cret\"")

        let folder = Migration("o", from: .json(at: Path.parent(of: store.directory)), .string("k"))
        expectError(.unsafePermissions) { try lockbox.migrate(folder) }
    }

    @Test func aSymbolicLinkStaysOne() throws {
        let path = try file("real.env", "A=1\nB=2\n".utf8)
        let link = "\(Path.parent(of: store.directory))/link.env"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "real.env")
        #expect(
            try lockbox.migrate(Migration("m", from: .environmentFile(at: link), .string("A"))).isComplete
        )
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "real.env")
        #expect(try text(path) == "B=2\n")
    }

    /// When other items have been migrated already: the new one that came, and the old one that was changed, stay.
    @Test func whatComesDuringTheRunStays() throws {
        try write("1".utf8, "a")
        try write("2".utf8, "b")
        let inPlace = Migration(nil, .string("a"), .string("b"))
        let changed = try lockbox.migrate(inPlace) { progress in
            if progress.completed == 1 {
                #expect(throws: Never.self) { try write("changed".utf8, "b") }
            }
        }
        #expect(changed.outcomes.map(\.outcome) == [.migrated, .refused(.changed)])
        #expect(try bytes("b")?.value.data == Data("changed".utf8))

        let source = MigrationSource.items(["a": Data("1".utf8), "b": Data("2".utf8)])
        let moved = Migration(nil, from: source, .string("a", to: "new a"), .string("b", to: "new b"))
        let taken = try lockbox.migrate(moved) { progress in
            if progress.completed == 1 {
                #expect(throws: Never.self) { try lockbox.archiveObject("came", forKey: "new b") }
            }
        }
        #expect(taken.outcomes.map(\.outcome) == [.migrated, .refused(.destinationTaken)])
        #expect(try lockbox.unarchiveObject(forKey: "new b") == "came")
    }

    /// Then the old item must not go.
    @Test func aBackendThatKeepsAnotherValueIsNoticed() throws {
        let isRemoved = Protected(false)
        let source = MigrationSource.items(["a": Data("1".utf8)]) { _ in isRemoved.withLock { $0 = true } }
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: DefectiveBackend(.changesValue))
        let error = lockboxError { try lockbox.migrate(Migration(nil, from: source, .string("a"))) }
        #expect(error?.code == .corrupt)
        #expect(!isRemoved.withLock { $0 })
    }

    @Test func whatOthersChangeMeanwhileStays() throws {
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let source = try FileItems(path: path, format: .environment)
        let a = try #require(try source.item(forKey: "A"))
        let b = try #require(try source.item(forKey: "B"))
        try Data("A=changed\nB=2\nC=3\n".utf8).write(to: URL(fileURLWithPath: path))
        #expect(try source.remove(["A": a, "B": b]) == ["A"])
        #expect(try text(path) == "A=changed\nC=3\n")

        try write("old".utf8, "k")
        let items = BackendItems(backend: lockbox.backend, keyPrefix: TestStore.prefix, now: date)
        let item = try #require(try items.item(forKey: "k"))
        try write("newer".utf8, "k")
        #expect(try items.remove(["k": item]) == ["k"])
        #expect(try bytes("k")?.value.data == Data("newer".utf8))
    }

    /// In place, in the same time, and to the same length: also when the new file is written already.
    @Test func aChangeAtTheLastMomentIsNotOverwritten() throws {
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let modified = try #require(
            FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
        )
        let calls = SystemCalls.before(.write) {
            #expect(throws: Never.self) {
                try overwrite(path, Array("A=1\nB=3\n".utf8))
                try FileManager.default.setAttributes([.modificationDate: modified], ofItemAtPath: path)
            }
            return true
        }
        let source = try FileItems(path: path, format: .environment, calls: calls)
        let a = try #require(try source.item(forKey: "A"))
        #expect(try source.remove(["A": a]) == ["A"])
        #expect(try text(path) == "A=1\nB=3\n")
    }

    /// Not a number does not equal itself, and texts equal others of the same characters.
    @Test func whatIsUnchangedIsSoBitForBit() throws {
        let path = try file(
            "a.plist",
            "<plist><dict><key>A</key><array><real>nan</real><real>1.5</real></array></dict></plist>".utf8
        )
        let numbers = Migration("m", from: .propertyList(at: path), .value("A", as: [Double].self))
        #expect(try lockbox.migrate(numbers)["A"] == .migrated)
        #expect(try !text(path).contains("nan"))

        // One with a sign, as processors make it.
        let archived = ["key": Data(PropertyListWriter.archive([.real(-Double.nan)]))]
        let number = Migration("n", from: .items(archived), .archive("key", as: Double.self))
        #expect(try lockbox.migrate(number)["key"] == .migrated)

        let settings = try file("app.env", "A=caf\u{E9}\n".utf8)
        let source = try FileItems(path: settings, format: .environment)
        let a = try #require(try source.item(forKey: "A"))
        try Data("A=cafe\u{301}\n".utf8).write(to: URL(fileURLWithPath: settings))
        #expect(try source.remove(["A": a]) == ["A"])
    }

    @Test func anEntryThatCannotBeReadAnyMoreIsNotRemoved() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        defaults.set("old", forKey: "k")
        let items = try DefaultsItems(suiteName: suite)
        let item = try #require(try items.item(forKey: "k"))
        let newer = (0...PropertyValue.maximumDepth).reduce("newer" as Any) { value, _ in [value] }
        defaults.set(newer, forKey: "k")
        #expect(throws: SourceError.tooDeep) { try items.item(forKey: "k") }
        #expect(try items.remove(["k": item]) == ["k"])
        #expect(defaults.object(forKey: "k") != nil)
    }

    /// Equal for the app, but not the same.
    private struct Account: Codable, Equatable {
        var id: Int
        var token: String

        static func == (one: Account, other: Account) -> Bool { one.id == other.id }
    }

    @Test func whatIsEqualOnlyInPartIsAnotherValue() throws {
        let path = try file("config.json", #"{"account":{"id":1,"token":"s3cret"}}"#.utf8)
        try lockbox.archiveObject(Account(id: 1, token: "another"), forKey: "account")
        let migration = Migration("m", from: .json(at: path), .value("account", as: Account.self))
        #expect(try lockbox.migrate(migration)["account"] == .refused(.destinationTaken))
        #expect(try text(path).contains("s3cret"))
    }

    private struct Group: Codable, Sendable {
        var name: String
        var members: Set<String>
        var quotas: [Role: Int]
        var steps: [String]

        enum Role: String, Codable { case owner, guest, reader, writer }
    }

    private func group(_ members: [String], steps: [String] = ["x", "y"]) throws -> Data {
        try JSONEncoder().encode(
            Group(
                name: "staff",
                members: Set(members),
                quotas: [.owner: 1, .guest: 2, .reader: 3, .writer: 4],
                steps: steps
            )
        )
    }

    /// What has no order may read back in another, also inside a type that cannot be compared.
    @Test(arguments: [1, 2, 8, 40, 200]) func aSetInsideATypeThatIsNotEquatable(_ count: Int) throws {
        let members = (0..<count).map { "member \($0)" }
        let source = try MigrationSource.items(["k": group(members)])
        #expect(
            try lockbox.migrate(Migration("m", from: source, .json("k", as: Group.self)))["k"] == .migrated
        )
        // As an interrupted run of another process may have left it.
        let json = try #require(
            try JSONSerialization.jsonObject(with: group(members)) as? [String: Any]
        )
        for other in [members, members.reversed(), members.shuffled()] {
            let bytes = try JSONSerialization.data(withJSONObject: json.merging(["members": other]) { $1 })
            let value = try ArchivedValue(data: bytes, format: .json)
            let item = try StoredItem(key: lockbox.itemKey("k"), value: value, modified: date)
            try lockbox.backend.write(item, policy: .replace)
            let report = try lockbox.migrate(Migration(nil, from: source, .json("k", as: Group.self)))
            #expect(report["k"] == .migrated)
        }
    }

    @Test func anotherOrderOfAListIsAnotherValue() throws {
        let old = try group(["a", "b"], steps: ["x", "y"])
        let value = try ArchivedValue(data: group(["a", "b"], steps: ["y", "x"]), format: .json)
        let item = try StoredItem(key: lockbox.itemKey("k"), value: value, modified: date)
        try lockbox.backend.write(item, policy: .replace)
        let migration = Migration("m", from: .items(["k": old]), .json("k", as: Group.self))
        #expect(try lockbox.migrate(migration)["k"] == .refused(.destinationTaken))
        // Nor does a list inside a dictionary's value go by another's order.
        let lists = Migration(
            "n",
            from: .items(["l": Data(#"{"k":[1,2]}"#.utf8)]),
            .json("l", as: Lists.self)
        )
        try lockbox.archiveObject(Lists(map: ["k": [2, 1]]), forKey: "l")
        #expect(try lockbox.migrate(lists)["l"] == .refused(.destinationTaken))
    }

    private struct Lists: Codable, Sendable {
        var map: [String: [Int]]

        init(map: [String: [Int]]) { self.map = map }
        init(from decoder: any Decoder) throws { map = try [String: [Int]](from: decoder) }
        func encode(to encoder: any Encoder) throws { try map.encode(to: encoder) }
    }

    @Test func aFileOfTwoNamesIsRefused() throws {
        let path = try file("app.env", "A=s3cret\n".utf8)
        try FileManager.default.linkItem(atPath: path, toPath: "\(path).other")
        let migration = Migration("m", from: .environmentFile(at: path), .string("A"))
        expectError(.unsafePermissions) { try lockbox.migrate(migration) }
        #expect(try lockbox.allKeys().isEmpty)
        try FileManager.default.removeItem(atPath: "\(path).other")
        #expect(try lockbox.migrate(migration)["A"] == .migrated)
    }

    @Test func whatIsToStayStaysAlsoIfTheSourceIsThisStore() throws {
        try write("t".utf8, "a")
        let before = try bytes("a")
        let migration = Migration(
            "m",
            from: .backend(store.backend()),
            .string("a"),
            .string("a 2", to: "b"),
            keepsOldItems: true
        )
        #expect(try lockbox.migrate(migration)["a"] == .refused(.destinationTaken))
        #expect(try bytes("a") == before)
    }

    @Test func aReportHasOneLineForEachItem() throws {
        let report = try lockbox.migrate(
            Migration("m", .string("a\n\u{1B}[2Jb: migrated"), .string("caf\u{E9}"))
        )
        #expect(report.description == "a\\n\\u{1B}[2Jb: migrated: absent\ncaf\u{E9}: absent")
    }
}
