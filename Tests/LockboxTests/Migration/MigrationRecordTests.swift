import Foundation
import Testing

@testable import Lockbox
@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// A migration's memory, so that nothing is migrated twice.
@Suite struct MigrationRecordTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    /// The next run migrates what the app has mended, and repeats nothing.
    @Test func theNextRunTriesAgainWhatWasRefused() throws {
        try write("soon".utf8, "date")
        try write("t".utf8, "token")
        let migration = Migration("m", .date("date"), .string("token"))
        #expect(try lockbox.migrate(migration).refused.keys.sorted() == ["date"])
        try write("1.5".utf8, "date")
        let report = try lockbox.migrate(migration)
        #expect(report["date"] == .migrated)
        #expect(report["token"] == .migratedBefore)
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
        #expect(report["later"] == .migrated && report["token"] == .migratedBefore)
    }

    @Test func noAppSeesTheRecord() throws {
        try write("t".utf8, "token")
        try lockbox.migrate(Migration("token", .string("token")))
        #expect(try lockbox.allKeys() == ["token"])
        #expect(try lockbox.backend.prefixes() == [TestStore.prefix])
        #expect(try lockbox.backend.attributes(prefix: TestStore.prefix, now: date).count == 1)
        try lockbox.removeAllObjects()
        #expect(try lockbox.migrate(Migration("token", .string("token")))["token"] == .migratedBefore)
        try write("t".utf8, "token")
        // Another prefix's migration is another one, and so is one of another name.
        let other = try store.lockbox("com.example.other")
        try write("t".utf8, "token", in: other)
        #expect(try other.migrate(Migration("token", .string("token")))["token"] == .migrated)
        #expect(try lockbox.migrate(Migration("token 2", .string("token")))["token"] == .migrated)

        let backend = store.backend()
        let backup = "\(store.directory).backup"
        let report = try backend.exportBackup(to: backup, for: .passphrase(.value("p"), workFactor: 10))
        #expect(report.exportedCount == 2 && report.excludedKeys.isEmpty)
        #expect(try backend.verify().findings.isEmpty)
    }

    /// An import that somebody asks for is done each time.
    @Test func withoutANameItIsNotRemembered() throws {
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let source = MigrationSource.lines(at: path)
        #expect(try source.keys(for: lockbox) == ["A", "B"])
        let migration = Migration(nil, from: source, .string("A"), .string("B"), keepsOldItems: true)
        #expect(try lockbox.migrate(migration).isComplete)
        try lockbox.removeObject(forKey: "A")
        try lockbox.archiveObject("3", forKey: "B")
        #expect(try lockbox.migrate(migration, dryRun: true)["A"] == .migrated)
        let again = try lockbox.migrate(migration)
        #expect(again["A"] == .migrated && again["B"] == .refused(.destinationExists))
        #expect(try lockbox.unarchiveObject(String.self, forKey: "A") == "1")
        #expect(try lockbox.unarchiveObject(String.self, forKey: "B") == "3")
        try write("t".utf8, "old")
        #expect(try MigrationSource.store.keys(for: lockbox) == ["old"])
        #expect(try MigrationSource.items(["b": Data(), "a": Data()]).keys(for: lockbox) == ["a", "b"])
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
        #expect(try lockbox.migrate(Migration(name, .string("k")))["k"] == .migratedBefore)
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

    // MARK: Several machines

    private func shared() throws -> Lockbox {
        let storage = LimitedStorage(target: InMemoryStorage())
        let backend = SealedBackend(storage: storage, deviceKey: .bytes([UInt8](repeating: 7, count: 32)))
        return try backend.lockbox()
    }

    private func onMachine<Result>(_ number: Int, _ body: () throws -> Result) throws -> Result {
        try Machine.$identify.withValue({ String(repeating: "\(number)", count: 32) }, operation: body)
    }

    /// The old items of each are its own, whatever the others have migrated into the storage that they share.
    @Test func eachMachineMigratesItsOwnItems() throws {
        let shared = try shared()
        for number in 1...2 {
            let path = try file("\(number).env", "TOKEN=t\(number)\n".utf8)
            let migration = Migration(
                "m",
                from: .lines(at: path),
                .string("TOKEN", to: "token of \(number)")
            )
            try onMachine(number) { () throws in
                #expect(try shared.migrate(migration, dryRun: true)["TOKEN"] == .migrated)
                #expect(try shared.migrate(migration)["TOKEN"] == .migrated)
                #expect(try shared.migrate(migration)["TOKEN"] == .migratedBefore)
            }
            #expect(try shared.unarchiveObject(String.self, forKey: "token of \(number)") == "t\(number)")
            #expect(try text(path) == "")
        }
    }

    /// Items that all machines have are migrated by one of them.
    @Test func sharedItemsAreMigratedOnce() throws {
        let (shared, other) = (try shared(), try shared())
        let sources = [(MigrationSource.store, shared), (.backend(other.backend), other)]
        for (number, (source, old)) in sources.enumerated() {
            let migration = Migration("m\(number)", from: source, .string("token", to: "t\(number)"))
            try write("t".utf8, "token", in: old)
            #expect(try onMachine(1) { try shared.migrate(migration)["token"] } == .migrated)
            #expect(try onMachine(2) { try shared.migrate(migration)["token"] } == .migratedBefore)
        }
    }

    /// Nothing is migrated that could not be remembered; and without a name, nothing is to be.
    @Test func aMachineThatIsNotKnown() throws {
        let shared = try shared()
        let path = try file("a.env", "A=1\n".utf8)
        func migrate(_ name: String?, into lockbox: Lockbox) throws -> MigrationReport.Outcome? {
            try Machine.$identify.withValue(
                { try Machine.identifier(inFile: "\(path).missing") },
                operation: {
                    try lockbox.migrate(Migration(name, from: .lines(at: path), .string("A")))["A"]
                }
            )
        }
        #expect(lockboxError { try migrate("m", into: shared) }?.code == .storageFailure)
        #expect(try text(path) == "A=1\n" && shared.allKeys().isEmpty)
        #expect(try migrate(nil, into: shared) == .migrated)
        try write("t".utf8, "token")
        #expect(try migrate("m", into: lockbox) == .absent, "one machine's own store needs no name for it")
    }

    @Test func identifiersOfMachines() throws {
        let digits = "0123456789abcdef0123456789abcdef"
        for text in [digits, digits + "\n"] {
            #expect(try Machine.identifier(inFile: file("machine-id", text.utf8)) == digits)
        }
        for text in ["", "\n", "uninitialized\n", digits + "0", digits + "\n\n", "\(digits.dropLast())g"] {
            let path = try file("machine-id", text.utf8)
            #expect(lockboxError { try Machine.identifier(inFile: path) }?.code == .corrupt, "\(text)")
        }
    }

    @Test func whereARecordOfAMachineIs() throws {
        let machine = try onMachine(1) { try Machine.hash() }
        #expect(machine.count == 64)
        #expect(try machine != onMachine(2) { try Machine.hash() })
        let key = try MigrationRecord.key(ofMigration: "m", prefix: "com.example", machine: machine)
        #expect(key.prefix == "\0migration of \(machine)\0com.example" && key.key == "m")
        let longest = String(repeating: "p", count: ItemKey.maximumLength)
        let long = try MigrationRecord.key(ofMigration: "m", prefix: longest, machine: machine)
        #expect(long.prefix.hasPrefix("\0migration of \(machine)\0\0"))
    }
}
