import Foundation
import Testing

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@_spi(Extensions) @testable import LockboxStore

/// Files of other programs as sources of migrations.
@Suite struct MigrationFileTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
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

    // MARK: Files that are not used, or not as they are

    @Test func filesThatCannotBeUsed() throws {
        let absent = Migration("m", from: .json(at: "\(store.directory)/absent.json"), .string("k"))
        #expect(try lockbox.migrate(absent)["k"] == .absent)

        let malformed = try file("bad.json", "{\"k\": \"s3cret\"".utf8)
        let error = lockboxError {
            try lockbox.migrate(Migration("n", from: .json(at: malformed), .string("k")))
        }
        #expect(error?.code == .sourceRefused)
        #expect(error?.description.contains("s3cret") == false)
        #expect(error?.description.contains("damaged: it is damaged") == false)
        #expect(try text(malformed) == "{\"k\": \"s3cret\"")

        let folder = Migration("o", from: .json(at: Path.parent(of: store.directory)), .string("k"))
        expectError(.unsafePermissions) { try lockbox.migrate(folder) }
    }

    /// Only where nothing has its path. Otherwise the migration would count as complete.
    @Test func aFileThatCannotBeLookedUpIsNotAbsent() throws {
        let folder = Path.parent(of: store.directory)
        try FileManager.default.createSymbolicLink(
            atPath: "\(folder)/link",
            withDestinationPath: "/none/at all"
        )
        var descriptors: [CInt] = [0, 0]
        try #require(pipe(&descriptors) == 0)
        defer { for descriptor in descriptors { close(descriptor) } }
        let fifo = "\(folder)/fifo"
        try #require(mkfifo(fifo, 0o600) == 0)
        for path in ["\(folder)/link", "\(folder)/link/x", "/dev/fd/\(descriptors[0])", fifo] {
            let source = MigrationSource.environmentFile(at: path)
            expectError(.unsafePermissions) { try source.keys(for: lockbox) }
            expectError(.unsafePermissions) {
                try lockbox.migrate(Migration("m", from: source, .string("K")))
            }
        }
        for path in ["\(folder)/none", "\(folder)/none/none", "/none", "\(folder)/store/../none"] {
            #expect(try MigrationSource.environmentFile(at: path).keys(for: lockbox) == [], "\(path)")
        }
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

    @Test func aFileOfTwoNamesIsRefused() throws {
        let path = try file("app.env", "A=s3cret\n".utf8)
        try FileManager.default.linkItem(atPath: path, toPath: "\(path).other")
        let migration = Migration("m", from: .environmentFile(at: path), .string("A"))
        expectError(.unsafePermissions) { try lockbox.migrate(migration) }
        #expect(try lockbox.allKeys().isEmpty)
        try FileManager.default.removeItem(atPath: "\(path).other")
        #expect(try lockbox.migrate(migration)["A"] == .migrated)
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

    /// Otherwise its items would be in both places, and the error would say nothing of that.
    @Test func ofAFileThatCannotBeReplacedNothingIsStored() throws {
        let path = try file("app.env", "A=1\n".utf8)
        let calls = SystemCalls { $0 == .chmod ? .failure(EPERM) : nil }
        let source = MigrationSource { _ in
            try FileItems(format: .environment(.common)) { () throws(LockboxError) in
                try ReplaceableFile(path, calls)
            }
        }
        expectError(.storageFailure) { try lockbox.migrate(Migration("m", from: source, .string("A"))) }
        #expect(try lockbox.allKeys().isEmpty && text(path) == "A=1\n")
        let names = try FileManager.default.contentsOfDirectory(atPath: Path.parent(of: path))
        #expect(names.filter { $0.hasPrefix("app.env") } == ["app.env"])
        let kept = Migration("m", from: source, .string("A"), keepsOldItems: true)
        #expect(try lockbox.migrate(kept).isComplete)
    }

    /// The owner of a link chooses what is read and replaced.
    @Test(.enabled(if: geteuid() == 0, "root alone can make links of other users"))
    func anotherUsersLinkIsNotFollowed() throws {
        let path = try file("real.env", "A=1\n".utf8)
        let folder = Path.parent(of: path)
        for (link, target, file) in [("link", "real.env", "link"), ("folder", ".", "folder/real.env")] {
            try FileManager.default.createSymbolicLink(
                atPath: "\(folder)/\(link)",
                withDestinationPath: target
            )
            let source = MigrationSource.environmentFile(at: "\(folder)/\(file)")
            #expect(try source.keys(for: lockbox) == ["A"])
            #expect(lchown("\(folder)/\(link)", 65534, 65534) == 0)
            expectError(.unsafePermissions) { try source.keys(for: lockbox) }
            // To a file of that user's.
            #expect(lchown(path, 65534, 65534) == 0)
            #expect(try source.keys(for: lockbox) == ["A"])
            #expect(lchown(path, 0, 0) == 0)
        }
    }

    @Test func whatOthersChangeMeanwhileStays() throws {
        let path = try file("app.env", "A=1\nB=2\n".utf8)
        let source = try FileItems(path: path, format: .environment(.common))
        let a = try #require(try source.item(forKey: "A"))
        let b = try #require(try source.item(forKey: "B"))
        try Data("A=changed\nB=2\nC=3\n".utf8).write(to: URL(fileURLWithPath: path))
        #expect(try source.remove(["A": a, "B": b]) == ["A"])
        #expect(try text(path) == "A=changed\nC=3\n")
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
        let source = try FileItems(format: .environment(.common)) { () throws(LockboxError) in
            try ReplaceableFile(path, calls)
        }
        let a = try #require(try source.item(forKey: "A"))
        #expect(try source.remove(["A": a]) == ["A"])
        #expect(try text(path) == "A=1\nB=3\n")
    }
}
