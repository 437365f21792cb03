import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore
@testable import LockboxUserDefaults

/// Defaults that one process has set and another migrates, as after an update of an app. Both have the same name, and so
/// the same file.
@Suite(.timeLimit(.minutes(10))) struct UserDefaultsProcessTests {
    private let store: TestStore
    private let configuration: String

    init() throws {
        store = try TestStore()
        configuration = Path.parent(of: store.directory) + "/configuration"
        try FileManager.default.createDirectory(atPath: configuration, withIntermediateDirectories: true)
    }

    private let executable = "LockboxUserDefaultsTestProcess"

    private func start(_ arguments: [String]) throws -> TestProcess {
        try TestProcess(arguments, of: executable, environment: ["XDG_CONFIG_HOME": configuration])
    }

    @discardableResult
    private func run(_ arguments: String...) throws -> String {
        let process = try start(arguments)
        process.endInput()
        let output = process.allOutput()
        #expect(process.wait() == 0)
        return output
    }

    private func set(_ suite: String, _ values: [String: String]) throws {
        for (key, value) in values { try run("set", suite, key, value) }
    }

    /// The entries on the disk; nil without a file.
    private func stored(_ suite: String) throws -> [String: String]? {
        let name = suite == "-" ? executable : suite
        guard let data = FileManager.default.contents(atPath: "\(configuration)/\(name).plist") else {
            return nil
        }
        return try PropertyListSerialization.propertyList(from: data, format: nil) as? [String: String]
    }

    private func value(_ key: String) throws -> String? {
        try store.lockbox("com.example.process").unarchiveObject(forKey: key)
    }

    @Test(arguments: ["-", "com.example.suite"]) func anotherProcessMigratesThem(_ suite: String) throws {
        try set(suite, ["token": "s3cret", "other": "stays"])
        #expect(try stored(suite) == ["token": "s3cret", "other": "stays"], "the control")
        #expect(
            try run("migrate", suite, store.directory) == "token: migrated\nlist: absent\ncomplete: true\n"
        )
        #expect(try value("token") == "s3cret")
        #expect(try stored(suite) == ["other": "stays"])
    }

    @Test(arguments: ["-", "com.example.suite"]) func aDryRunInAnotherProcess(_ suite: String) throws {
        try set(suite, ["token": "s3cret"])
        #expect(
            try run("dry-run", suite, store.directory) == "token: migrated\nlist: absent\ncomplete: true\n"
        )
        #expect(try stored(suite) == ["token": "s3cret"])
        #expect(!FileManager.default.fileExists(atPath: store.directory))
    }

    /// A process that has them in memory goes by the file all the same.
    @Test(arguments: ["-", "com.example.suite"]) func othersSetThemMeanwhile(_ suite: String) throws {
        try set(suite, ["token": "old"])
        let process = try start(["read-first", suite, store.directory])
        process.waitForOutput()
        try set(suite, ["token": "new", "list": "also new"])
        process.endInput()
        let output = process.allOutput()
        #expect(process.wait() == 0)
        #expect(output == "token: migrated\nlist: migrated\ncomplete: true\n")
        #expect(try value("token") == "new" && value("list") == "also new")
        #expect(try stored(suite) == nil)
    }

    /// The look at the standard defaults must not lead the app's own calls to another file.
    @Test(arguments: [true, false]) func theAppSetsOthersAfterwards(_ isFirstRun: Bool) throws {
        if !isFirstRun { try set("-", ["token": "s3cret"]) }
        try run("set-after", "-", store.directory)
        #expect(try stored("-") == ["later": "set after the migration"])
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: configuration) == ["\(executable).plist"]
        )
    }

    /// The new value differs from the one that was read, and only the file has it.
    @Test func anEntryThatAnotherProcessHasChangedIsNotRemoved() throws {
        let suite = "lockbox-tests-\(UInt64.random(in: .min ... .max))"
        let defaults = try #require(UserDefaults(suiteName: suite))
        defer { defaults.removePersistentDomain(forName: suite) }
        defaults.set("old", forKey: "k")
        try #require(defaults.synchronize())
        let items = try DefaultsItems(suiteName: suite)
        let item = try #require(try items.item(forKey: "k"))
        let process = try TestProcess(["set", suite, "k", "newer"], of: executable)
        #expect(process.wait() == 0)
        #expect(try items.remove(["k": item]) == ["k"])
        defaults.synchronize()
        #expect(defaults.string(forKey: "k") == "newer")
    }
}
