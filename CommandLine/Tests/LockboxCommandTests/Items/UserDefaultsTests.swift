import Foundation
import Lockbox
import Testing

/// `UserDefaults` of another process, as a manifest's source.
@Suite struct UserDefaultsTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    /// Sets `values` in a process of its own.
    ///
    /// - Returns: All that are stored then.
    @discardableResult
    private func setDefaults(_ suite: String, _ values: [String: Any] = [:]) throws -> [String: Any] {
        var execution = sandbox.execution([suite], executable: Sandbox.besideTests("DefaultsProcess"))
        execution.input = try PropertyListSerialization.data(
            fromPropertyList: values,
            format: .binary,
            options: 0
        )
        let outcome = try execution.run()
        try #require(outcome.status == 0, "\(outcome.error)")
        let stored = try PropertyListSerialization.propertyList(from: outcome.bytes, format: nil)
        return try #require(stored as? [String: Any])
    }

    private func migrate(_ suite: String, _ items: String, _ options: String...) throws -> Outcome {
        let source = String(decoding: try JSONEncoder().encode(suite), as: UTF8.self)
        let manifest = try sandbox.file(
            "manifest.json",
            #"{"name": "defaults", "source": {"userDefaults": \#(source)}, "items": [\#(items)]}"#
        )
        return try sandbox.execution(["migrate", manifest] + options).run()
    }

    private func get(_ key: String, _ options: String...) throws -> String {
        try sandbox.execution(["get", key] + options).run().output
    }

    private static let token = #"{"key": "token", "type": "string"}"#

    @Test func valuesOfEveryType() throws {
        let text = "s3cret <&> \"é\"\n\t\u{1}😀"
        let date = Date(timeIntervalSince1970: 1_700_000_000)
        try setDefaults(
            "com.example.app",
            [
                "token": text, "other": "stays", "data": Data([0, 1, 255]), "date": date,
                "array": ["a", "b"],
                "value": ["number": 2.5, "count": 1],
            ]
        )
        let items = """
            \(Self.token), {"key": "data", "type": "data"}, {"key": "date", "type": "date"},
            {"key": "array", "type": "array"}, {"key": "value", "type": "value"}, {"key": "none", "type": "string"}
            """
        let report = """
            token: migrated
            data: migrated
            date: migrated
            array: migrated
            value: migrated
            none: absent

            """
        let dry = try migrate("com.example.app", items, "--dry-run")
        #expect(dry.status == 0 && dry.output == report, "\(dry.error)")
        let outcome = try migrate("com.example.app", items)
        #expect(outcome.status == 0 && outcome.output == report, "\(outcome.error)")
        #expect(try get("token") == text && get("array") == #"["a","b"]"#)
        #expect(try sandbox.lockbox("get", "data").bytes == Data([0, 1, 255]))
        #expect(try sandbox.library().unarchiveObject(Date.self, forKey: "date") == date)
        let value = try JSONDecoder().decode([String: Double].self, from: Data(get("value").utf8))
        #expect(value == ["number": 2.5, "count": 1])
        #expect(try setDefaults("com.example.app") as? [String: String] == ["other": "stays"])
    }

    /// Nothing of it is known before, and the process may make it yet.
    @Test func noneAreThere() throws {
        let outcome = try migrate("com.example.app", Self.token)
        #expect(outcome.status == 0 && outcome.output == "token: absent\n", "\(outcome.error)")
    }

    #if !canImport(Darwin)
        private func isFile(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }

        /// Where Foundation puts the file, the command finds it.
        @Test(arguments: ["", "relative", "~/x", "HOME/configuration", "HOME/configuration/"])
        func theFolder(_ configuration: String) throws {
            let configuration = configuration.replacing("HOME", with: sandbox.home)
            sandbox.environment["XDG_CONFIG_HOME"] = configuration
            try setDefaults("com.example.app", ["token": "s3cret"])
            let folder = configuration.hasPrefix("/") ? configuration : "\(sandbox.home)/.config"
            try #require(isFile("\(folder)/com.example.app.plist"), "the control")
            #expect(try migrate("com.example.app", Self.token).output == "token: migrated\n")
            #expect(try get("token") == "s3cret")
        }

        @Test(arguments: [
            "folder/name", ".hidden", "ends.plist", "a%20b #?;é", "HOME/elsewhere", "../above", "",
        ])
        func theNameOfTheFile(_ suite: String) throws {
            let suite = suite.replacing("HOME", with: sandbox.home)
            try setDefaults(suite, ["token": "s3cret"])
            #expect(try migrate(suite, Self.token).output == "token: migrated\n")
            #expect(try get("token") == "s3cret" && setDefaults(suite).isEmpty)
        }

        @Test func aBooleanIsNoNumber() throws {
            try setDefaults("com.example.app", ["flag": true, "count": 1])
            let items = #"{"key": "flag", "type": "value"}, {"key": "count", "type": "value"}"#
            #expect(try migrate("com.example.app", items).status == 0)
            #expect(try get("flag") == "true" && get("count") == "1")
        }

        /// Others may not read what stays in it, and it goes on being the process's own.
        @Test func thePermissionsOfTheFile() throws {
            try setDefaults("com.example.app", ["token": "s3cret"])
            #expect(try migrate("com.example.app", Self.token).status == 0)
            let file = "\(sandbox.home)/.config/com.example.app.plist"
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
        }

        /// Readers of XML disagree about what it is.
        @Test func aCarriageReturn() throws {
            try setDefaults("com.example.app", ["token": "s3cret", "lines": "one\r\ntwo"])
            let outcome = try migrate(
                "com.example.app",
                #"\#(Self.token), {"key": "lines", "type": "string"}"#
            )
            #expect(outcome.status == 4)
            #expect(outcome.output.hasPrefix("token: migrated\nlines: refused: "), "\(outcome.output)")
            #expect(try setDefaults("com.example.app") as? [String: String] == ["lines": "one\r\ntwo"])
        }

        @Test func aFileThatIsDamaged() throws {
            try FileManager.default.createDirectory(
                atPath: "\(sandbox.home)/.config",
                withIntermediateDirectories: true
            )
            let file = try sandbox.file(
                ".config/com.example.app.plist",
                "<plist><dict><key>token</key>s3cret"
            )
            let outcome = try migrate("com.example.app", Self.token)
            #expect(outcome.status == 4 && outcome.output == "" && !outcome.error.contains("s3cret"))
            #expect(outcome.error.contains(file))
            #expect(FileManager.default.contents(atPath: file)?.isEmpty == false)
        }
    #endif
}
