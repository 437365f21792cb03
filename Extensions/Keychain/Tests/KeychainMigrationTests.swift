@testable import LockboxKeychainTesting
import Foundation
import LockboxImport
import LockboxKeychain
import LockboxKeychainMigration
import LockboxTesting
import Testing

@testable import Lockbox
@testable import LockboxCore

/// From a simulated Keychain with what the libraries write, which is what their sources pass to `SecItemAdd`.
@Suite struct KeychainMigrationTests {
    private typealias Attributes = KeychainCalls.Attributes

    private let keychain = KeychainSimulator(accessGroups: ["T.app", "T.shared"])
    private let lockbox: Lockbox
    private let now = Date(timeIntervalSinceReferenceDate: 8e8)

    init() throws {
        let now = now
        lockbox = try InMemoryBackend().lockbox("com.example.app") { now }
    }

    // MARK: Items of the libraries

    /// Lockbox.m, `setObject:forKey:accessibility:` and `setData:forKey:accessibility:`.
    private func lockbox2(
        _ key: String,
        _ data: Data,
        _ accessibility: String = "ak",
        prefix: String = "com.example.app"
    ) {
        let attributes: Attributes = [
            "class": .text("genp"), "svce": .text("\(prefix).\(key)"), "pdmn": .text(accessibility),
            "v_Data": .data(data),
        ]
        #expect(keychain.add(attributes) == 0)
    }

    /// KeychainAccess's `Options.attributes(key:value:)`.
    private func keychainAccess(_ key: String, _ text: String, _ more: Attributes = [:]) {
        let attributes: Attributes = [
            "class": .text("genp"), "svce": .text("com.example.app"), "acct": .text(key),
            "v_Data": .data(Data(text.utf8)),
            "pdmn": .text("ck"), "sync": .bool(false),
        ]
        #expect(keychain.add(attributes.merging(more) { $1 }) == 0)
    }

    /// Valet's `Service.generateBaseQuery()` and `Keychain.setObject(_:forKey:options:)`.
    private func valet(_ service: String, _ key: String, _ text: String, _ more: Attributes = [:]) {
        let attributes: Attributes = [
            "class": .text("genp"), "svce": .text(service), "nleg": .bool(true), "acct": .text(key),
            "v_Data": .data(Data(text.utf8)),
        ]
        #expect(keychain.add(attributes.merging(more) { $1 }) == 0)
    }

    private var count: Int {
        keychain.copyMatching([
            "class": .text("genp"), "sync": .text("syna"), "m_Limit": .text("m_LimitAll"),
            "r_Attributes": .bool(true),
        ]).items.count
    }

    private func text(_ key: String) throws -> String? { try lockbox.unarchiveObject(forKey: key) }

    // MARK: Tests

    @Test func lockbox2And3() throws {
        lockbox2("token", Data("t0ken".utf8), "ck")
        lockbox2("searches", Data("a-|-b".utf8))
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        archiver.encode("alice" as NSString, forKey: "name")
        archiver.finishEncoding()
        lockbox2("name", archiver.encodedData)
        lockbox2("token", Data("other".utf8), prefix: "com.example.application")
        keychainAccess("account", "not Lockbox's", ["svce": .text("com.example.app.x")])
        let source = MigrationSource.lockboxKeychain(calls: keychain)
        #expect(try source.keys(for: lockbox) == ["name", "searches", "token"])
        let migration = Migration(
            "from Lockbox 3",
            from: source,
            .string("token"),
            .array("searches"),
            .archive("name", as: String.self),
            .string("absent")
        )
        let dry = try lockbox.migrate(migration, dryRun: true)
        #expect(dry.outcomes.map(\.outcome) == [.migrated, .migrated, .migrated, .absent] && count == 5)
        let report = try lockbox.migrate(migration)
        #expect(report.isComplete && report.outcomes.map(\.outcome) == dry.outcomes.map(\.outcome))
        #expect(try text("token") == "t0ken" && text("name") == "alice")
        #expect(try lockbox.unarchiveObject([String].self, forKey: "searches") == ["a", "b"])
        #expect(try lockbox.attributes(forKey: "token")?.accessibility == .afterFirstUnlock)
        // The others' stay.
        #expect(count == 2)
        #expect(
            try lockbox.migrate(migration).outcomes.prefix(3).allSatisfy { $0.outcome == .migratedBefore }
        )
    }

    @Test func keychainAccess() throws {
        keychainAccess("token", "t0ken", ["labl": .text("label"), "icmt": .text("comment")])
        keychainAccess("cloud", "c", ["sync": .bool(true)])
        keychainAccess("kept", "k")
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        #expect(try source.keys(for: lockbox) == ["cloud", "kept", "token"])
        let report = try lockbox.migrate(
            Migration("from KeychainAccess", from: source, .string("token"), .string("cloud"))
        )
        #expect(report.isComplete && count == 1)
        #expect(try text("token") == "t0ken" && text("cloud") == "c" && text("kept") == nil)
        let attributes = try lockbox.attributes(forKey: "token")
        #expect(attributes?.label == "label" && attributes?.comment == "comment")
        #expect(attributes?.accessibility == .afterFirstUnlock && attributes?.modified == now)
        #expect(attributes.map { abs($0.created.timeIntervalSinceNow) < 60 } == true)
    }

    @Test func valet() throws {
        let start = "VAL_VALValet_initWithIdentifier:accessibility:_Druidia"
        valet("\(start)_AccessibleWhenUnlocked", "token", "t0ken", ["pdmn": .text("ak")])
        valet("\(start)_AccessibleWhenUnlocked", "VAL_KeychainCanaryUsername", "x", ["pdmn": .text("ak")])
        valet("\(start)_AccessibleAfterFirstUnlockThisDeviceOnly", "token", "other", ["pdmn": .text("cku")])
        valet(
            "VAL_VALSynchronizableValet_initWithIdentifier:accessibility:_Druidia_AccessibleWhenUnlocked",
            "token",
            "cloud",
            ["pdmn": .text("ak"), "sync": .bool(true)]
        )
        let shared = "VAL_VALValet_initWithSharedAccessGroupIdentifier:accessibility:_shared"
        let group: Attributes = ["pdmn": .text("ck"), "agrp": .text("T.shared")]
        valet("\(shared)_AccessibleAfterFirstUnlock", "token", "shared", group)
        valet("\(shared)_id_AccessibleAfterFirstUnlock", "token", "shared id", group)
        let sources: [(MigrationSource, String)] = [
            (.valet(identifier: "Druidia", accessibility: .whenUnlocked, calls: keychain), "t0ken"),
            (
                .valet(
                    identifier: "Druidia",
                    accessibility: .afterFirstUnlockThisDeviceOnly,
                    calls: keychain
                ), "other"
            ),
            (
                .valet(
                    identifier: "Druidia",
                    accessibility: .whenUnlocked,
                    isSynchronizable: true,
                    calls: keychain
                ), "cloud"
            ),
            (
                .valet(sharedGroup: "shared", prefix: "T", accessibility: .afterFirstUnlock, calls: keychain),
                "shared"
            ),
            (
                .valet(
                    sharedGroup: "shared",
                    prefix: "T",
                    identifier: "id",
                    accessibility: .afterFirstUnlock,
                    calls: keychain
                ),
                "shared id"
            ),
        ]
        for (number, (source, value)) in sources.enumerated() {
            #expect(try source.keys(for: lockbox) == ["token"], "\(value)")
            let report = try lockbox.migrate(
                Migration("valet \(number)", from: source, .string("token", to: value))
            )
            #expect(report.isComplete, "\(value)")
            #expect(try text(value) == value)
        }
        #expect(count == 1)  // Valet's own
    }

    @Test func oldItemsStayIfWanted() throws {
        keychainAccess("token", "t0ken")
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        let migration = Migration("m", from: source, .string("token"), keepsOldItems: true)
        #expect(try lockbox.migrate(migration).isComplete && count == 1 && text("token") == "t0ken")
    }

    @Test func anItemThatCannotBeDecodedStays() throws {
        keychainAccess("number", "x")
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        let report = try lockbox.migrate(Migration("m", from: source, .json("number", as: Int.self)))
        #expect(report.refused.count == 1 && count == 1)
    }

    @Test func aLockedItemStopsTheMigrationBeforeItWrites() throws {
        keychainAccess("open", "o")
        keychainAccess("locked", "l", ["pdmn": .text("ak")])
        keychain.isLocked = true
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        let migration = Migration("m", from: source, .string("open"), .string("locked"))
        expectError(.interactionNotAllowed) { try lockbox.migrate(migration) }
        #expect(try lockbox.allKeys().isEmpty)
        keychain.isLocked = false
        #expect(try lockbox.migrate(migration).isComplete && count == 0)
    }

    @Test func anItemInTwoGroupsIsRefused() throws {
        keychainAccess("token", "one")
        keychainAccess("token", "two", ["agrp": .text("T.shared")])
        let all = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        let reason =
            #"2 Keychain items have the key "token"; pass keychains, accessGroup or isSynchronizable"#
        #expect(
            try lockbox.migrate(Migration("m", from: all, .string("token"))).refused == [
                "token": .ambiguous(reason: reason)
            ]
        )
        let one = MigrationSource.keychain(
            service: "com.example.app",
            accessGroup: "T.shared",
            calls: keychain
        )
        #expect(try lockbox.migrate(Migration("m", from: one, .string("token"))).isComplete)
        #expect(try text("token") == "two" && count == 1)
    }

    @Test func withoutEntitlementNothingIsAbsent() throws {
        let mac = KeychainSimulator(platform: .macOS, accessGroups: [])
        let migration = Migration("m", from: .keychain(service: "s", calls: mac), .string("token"))
        expectError(.keychainFailure) { try lockbox.migrate(migration) }
    }

    @Test func lockboxsOwnItemsAreNotMigrated() throws {
        let own = try KeychainBackend(keychain).lockbox("com.example.app")
        try own.archiveObject("mine", forKey: "token")
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        #expect(try source.keys(for: lockbox).isEmpty)
        #expect(
            try lockbox.migrate(Migration("m", from: source, .string("token"))).outcomes.map(\.outcome) == [
                .absent
            ]
        )
        #expect(try own.unarchiveObject(forKey: "token") == "mine")
    }

    @Test func anItemThatChangesMeanwhileStays() throws {
        keychainAccess("token", "t0ken")
        let calls = InterruptedKeychain(keychain: keychain) { [keychain] call in
            guard call == .delete else { return nil }
            let query: Attributes = ["class": .text("genp"), "acct": .text("token")]
            _ = keychain.update(query, ["v_Data": .data(Data("newer".utf8))])
            return nil
        }
        let source = MigrationSource.keychain(service: "com.example.app", calls: calls)
        let report = try lockbox.migrate(Migration("m", from: source, .string("token")))
        #expect(report.outcomes.map(\.outcome) == [.refused(.changed)] && count == 1)
    }

    @Test func anItemThatGetsADoubleMeanwhileStays() throws {
        for key in ["a", "b"] { keychainAccess(key, "old") }
        let double: Attributes = [
            "class": .text("genp"), "svce": .text("com.example.app"), "acct": .text("b"),
            "v_Data": .data(Data("other".utf8)), "agrp": .text("T.shared"), "sync": .bool(false),
        ]
        let calls = InterruptedKeychain(keychain: keychain) { [keychain] call in
            if call == .delete { _ = keychain.add(double) }
            return nil
        }
        let source = MigrationSource.keychain(service: "com.example.app", calls: calls)
        let report = try lockbox.migrate(Migration("m", from: source, .string("a"), .string("b")))
        #expect(report.outcomes.map(\.outcome) == [.migrated, .refused(.changed)] && count == 2)
    }

    /// macOS does not compare dates of modification, and Valet deletes and adds there.
    @Test func onMacOSAnItemThatIsReplacedMeanwhileStays() throws {
        let mac = KeychainSimulator(platform: .macOS)
        let item: Attributes = [
            "class": .text("genp"), "nleg": .bool(true), "acct": .text("token"), "pdmn": .text("ak"),
            "svce": .text("VAL_VALValet_initWithIdentifier:accessibility:_id_AccessibleWhenUnlocked"),
        ]
        func value(_ text: String) -> Attributes { item.merging(["v_Data": .data(Data(text.utf8))]) { $1 } }
        #expect(mac.add(value("t0ken")) == 0)
        let newer = value("newer")
        let calls = InterruptedKeychain(keychain: mac) { call in
            guard call == .delete else { return nil }
            _ = mac.delete(item)
            _ = mac.add(newer)
            return nil
        }
        func migration(_ name: String, _ calls: any KeychainCalls) -> Migration {
            Migration(
                name,
                from: .valet(identifier: "id", accessibility: .whenUnlocked, calls: calls),
                .string("token", to: name)
            )
        }
        #expect(try lockbox.migrate(migration("1", calls)).outcomes.map(\.outcome) == [.refused(.changed)])
        #expect(mac.copyMatching(item).status == 0)
        #expect(try lockbox.migrate(migration("2", mac)).isComplete && text("2") == "newer")
        #expect(mac.copyMatching(item).status == -25300)
    }

    @Test func anInterruptedRunIsCompletedByTheNext() throws {
        keychainAccess("token", "t0ken")
        let migration = { (calls: any KeychainCalls) in
            Migration("m", from: .keychain(service: "com.example.app", calls: calls), .string("token"))
        }
        let failing = InterruptedKeychain(keychain: keychain) { $0 == .delete ? -25308 : nil }
        expectError(.interactionNotAllowed) { try lockbox.migrate(migration(failing)) }
        #expect(try text("token") == "t0ken" && count == 1)
        #expect(try lockbox.migrate(migration(keychain)).isComplete && count == 0)
    }

    /// The items go where they already are: into the Keychain, as Lockbox's.
    @Test func intoTheSameKeychain() throws {
        lockbox2("token", Data("t0ken".utf8))
        keychainAccess("other", "o")
        let lockbox = try KeychainBackend(keychain).lockbox("com.example.app")
        #expect(
            try lockbox.migrate(Migration("1", from: .lockboxKeychain(calls: keychain), .string("token")))
                .isComplete
        )
        #expect(try lockbox.unarchiveObject(forKey: "token") == "t0ken")
        // KeychainAccess's item has the place of Lockbox's, so another key or prefix is needed.
        let source = MigrationSource.keychain(service: "com.example.app", calls: keychain)
        let refused = try lockbox.migrate(Migration("2", from: source, .string("other"))).refused
        #expect(refused["other"]?.description.contains("use another prefix or key") == true)
        #expect(try lockbox.migrate(Migration("3", from: source, .string("other", to: "moved"))).isComplete)
        #expect(try lockbox.unarchiveObject(forKey: "moved") == "o")
        #expect(try lockbox.allKeys() == ["token", "moved"])
    }

    // MARK: macOS's file keychain, and internet passwords

    private func macMigration(_ mac: KeychainSimulator, _ keychains: MacKeychains = .all, name: String = "m")
        -> Migration
    {
        let source = MigrationSource.lockboxKeychain(keychains: keychains, calls: mac)
        return Migration(name, from: source, .string("file"), .string("protected"))
    }

    private func addTwo(_ mac: KeychainSimulator) {
        for (name, isProtected) in [("file", false), ("protected", true)] {
            let attributes: Attributes = [
                "class": .text("genp"), "svce": .text("com.example.app.\(name)"),
                "v_Data": .data(Data(name.utf8)),
                "nleg": .bool(isProtected), "labl": .text("label"),
            ]
            #expect(mac.add(attributes) == 0)
        }
    }

    @Test func bothKeychainsOfMacOSAreRead() throws {
        let mac = KeychainSimulator(platform: .macOS)
        addTwo(mac)
        let source = MigrationSource.lockboxKeychain(calls: mac)
        #expect(try source.keys(for: lockbox) == ["file", "protected"])
        #expect(try lockbox.migrate(macMigration(mac)).isComplete)
        #expect(try text("file") == "file" && text("protected") == "protected")
        #expect(try lockbox.attributes(forKey: "file")?.label == "label")
        #expect(try source.keys(for: lockbox).isEmpty)
    }

    @Test func oneOfThemIsReadIfWanted() throws {
        let mac = KeychainSimulator(platform: .macOS)
        addTwo(mac)
        let report = try lockbox.migrate(macMigration(mac, .file))
        #expect(report.outcomes.map(\.outcome) == [.migrated, .absent])
        let rest = try lockbox.migrate(macMigration(mac, .dataProtection, name: "rest"))
        #expect(rest.outcomes.map(\.outcome) == [.alreadyMigrated, .migrated])
        // iOS has no file keychain, and no item is taken for one of it.
        lockbox2("token", Data("t0ken".utf8))
        let source = MigrationSource.lockboxKeychain(keychains: .file, calls: keychain)
        #expect(try source.keys(for: lockbox).isEmpty)
    }

    @Test func anUnsignedProgramReadsTheFileKeychain() throws {
        let mac = KeychainSimulator(platform: .macOS, accessGroups: [])
        let item: Attributes = [
            "class": .text("genp"), "svce": .text("com.example.app.file"), "v_Data": .data(Data("f".utf8)),
        ]
        #expect(mac.add(item) == 0)
        expectError(.keychainFailure) { try lockbox.migrate(macMigration(mac)) }
        #expect(
            try lockbox.migrate(macMigration(mac, .file, name: "file")).outcomes.first?.outcome == .migrated
        )
        #expect(try text("file") == "f" && mac.copyMatching(item).status == -25300)
        #expect(mac.copyMatching(["class": .text("genp")]).status == -25300)
    }

    @Test func anItemInBothKeychainsIsRefused() throws {
        let mac = KeychainSimulator(platform: .macOS)
        addTwo(mac)
        let twice: Attributes = [
            "class": .text("genp"), "svce": .text("com.example.app.file"),
            "v_Data": .data(Data("other".utf8)),
            "nleg": .bool(true),
        ]
        #expect(mac.add(twice) == 0)
        #expect(try lockbox.migrate(macMigration(mac)).refused.count == 1)
        #expect(try text("file") == nil)
        #expect(
            try lockbox.migrate(macMigration(mac, .file, name: "file")).outcomes.first?.outcome == .migrated
        )
        #expect(try text("file") == "file")
        #expect(mac.copyMatching(twice.filter { $0.key != "v_Data" }).status == 0)
    }

    /// KeychainAccess's `Keychain(server:protocolType:)`: host, protocol and authentication type, and the port if the URL
    /// has one.
    @Test func internetPasswords() throws {
        func add(_ account: String, _ server: String, _ more: Attributes = [:]) {
            let attributes: Attributes = [
                "class": .text("inet"), "srvr": .text(server), "ptcl": .text("htps"), "atyp": .text("dflt"),
                "acct": .text(account), "v_Data": .data(Data("hunter2 \(account)".utf8)),
                "sync": .bool(false),
            ]
            #expect(keychain.add(attributes.merging(more) { $1 }) == 0)
        }
        add("alice", "example.com")
        add("bob", "example.com", ["port": .int(8443)])
        add("carol", "example.org")
        let source = MigrationSource.keychain(server: "example.com", protocol: "htps", calls: keychain)
        #expect(try source.keys(for: lockbox) == ["alice", "bob"])
        let password = InternetPassword(server: "example.com", account: "alice", protocol: "https")
        let report = try lockbox.migrate(
            Migration("internet", from: source, .data("alice", to: password.key.name), .data("bob"))
        )
        #expect(report.isComplete)
        #expect(try lockbox.unarchiveObject(forKey: password.key) == Data("hunter2 alice".utf8))
        let found = try lockbox.list(matching: ["server": "example.com", "account": "alice"]).items
        #expect(found.values.compactMap(InternetPassword.init) == [password])
        #expect(
            keychain.copyMatching(["class": .text("inet"), "r_Attributes": .bool(true)]).items.first?["acct"]
                == .text("carol")
        )
        let port = MigrationSource.keychain(server: "example.com", port: 8443, calls: keychain)
        #expect(try port.keys(for: lockbox).isEmpty)
    }
}
