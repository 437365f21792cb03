import Foundation
import Lockbox
import Testing

/// What older programs have stored.
@Suite struct MigrationTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func get(_ key: String) throws -> String { try sandbox.lockbox("get", key).output }

    @Test func anEnvironmentFile() throws {
        let file = try sandbox.file("env", "# settings\nTOKEN=\"s3cret\"\nPORT=80\n")
        let dry = try sandbox.lockbox("import-env", file, "--dry-run")
        #expect(dry.status == 0 && dry.output == "TOKEN: migrated\nPORT: migrated\n")
        #expect(try sandbox.lockbox("list").output == "")

        let outcome = try sandbox.lockbox("import-env", file, "--class", "always")
        #expect(outcome.status == 0 && outcome.output == dry.output)
        #expect(try get("TOKEN") == "s3cret" && get("PORT") == "80")
        #expect(try sandbox.lockbox("info", "TOKEN").output.contains("always"))
        #expect(try sandbox.text(file).contains("s3cret"))

        try sandbox.lockbox("set", "PORT", text: "8080")
        let again = try sandbox.lockbox("import-env", file, "--remove")
        #expect(again.status == 4)
        #expect(again.output.contains("PORT: refused: the new key already holds another value"))
        #expect(again.error.hasSuffix("lockbox: 1 of 2 items were refused and are unchanged.\n"))
        #expect(try get("PORT") == "8080")
        #expect(try sandbox.text(file) == "# settings\nPORT=80\n")
    }

    @Test func aNetrcFile() throws {
        let file = try sandbox.file(
            "netrc",
            "machine a.example login al password s3cret\ndefault login x password y\n"
        )
        let outcome = try sandbox.lockbox("import-netrc", file)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(outcome.output.hasPrefix("al@a.example: migrated\n"))
        let login = try JSONDecoder().decode([String: String].self, from: Data(get("al@a.example").utf8))
        #expect(login == ["machine": "a.example", "login": "al", "password": "s3cret"])
    }

    @Test func filesThatAreNone() throws {
        #expect(try sandbox.lockbox("import-env", "\(sandbox.home)/none").status == 74)
        let file = try sandbox.file("bad", "A=1\nA=s3cret\n")
        let outcome = try sandbox.lockbox("import-env", file)
        #expect(outcome.status == 4 && !outcome.error.contains("s3cret"))
        #expect(outcome.error.split(separator: "\n").count == 1)
        #expect(try sandbox.text(file) == "A=1\nA=s3cret\n")
    }

    /// A member that is misspelt would be left out without a word.
    @Test(arguments: [
        #"{"name": "n", "items": [{"key": "k", "type": "string", "classs": "always"}]}"#,
        #"{"name": "n", "items": [], "keepOldItems": true}"#,
        #"{"name": "n", "source": {"JSON": "x"}, "items": []}"#,
    ])
    func unknownMembers(_ manifest: String) throws {
        let outcome = try sandbox.lockbox("migrate", try sandbox.file("manifest.json", manifest))
        #expect(outcome.status == 64 && outcome.error.contains("unknown member"))
    }

    @Test func aManifestThatIsNoJSON() throws {
        let manifest = try sandbox.file("manifest.json", #"{"name": "n", "items": [],}"#)
        #expect(try sandbox.lockbox("migrate", manifest).status == 64)
    }

    @Test func aManifest() throws {
        let settings = try sandbox.file(
            "settings.json",
            #"{"token": "s3cret", "window": {"x": 1, "y": [2.5, null, true, 18446744073709551615]}, "port": 80, "list": ["a"]}"#
        )
        let manifest = try sandbox.file(
            "manifest.json",
            """
            {"name": "settings", "source": {"json": "\(settings)"}, "items": [
              {"key": "token", "type": "string", "to": "app token", "class": "afterFirstUnlock"},
              {"key": "window", "type": "value"}, {"key": "list", "type": "array"},
              {"key": "port", "type": "string"}, {"key": "none", "type": "date"}]}
            """
        )
        let report = """
            token: migrated
            window: migrated
            list: migrated
            port: refused: it is not a value of the type String
            none: absent

            """
        let before = try sandbox.text(settings)
        let dry = try sandbox.lockbox("migrate", manifest, "--dry-run")
        #expect(dry.status == 4 && dry.output == report)
        #expect(try sandbox.text(settings) == before)

        let outcome = try sandbox.lockbox("migrate", manifest)
        #expect(outcome.status == 4 && outcome.output == report, "\(outcome.error)")
        #expect(try get("app token") == "s3cret")
        #expect(try sandbox.lockbox("info", "app token").output.contains("afterFirstUnlock"))
        struct Window: Decodable, Equatable { let x: Int }
        #expect(try JSONDecoder().decode(Window.self, from: Data(get("window").utf8)) == Window(x: 1))
        #expect(try get("window").contains("18446744073709551615"))
        #expect(try get("list") == #"["a"]"#)
        let rest = try JSONSerialization.jsonObject(with: Data(sandbox.text(settings).utf8)) as? [String: Int]
        #expect(rest == ["port": 80])

        // Remembered under its name.
        try sandbox.lockbox("remove", "app token")
        let again = try sandbox.lockbox("migrate", manifest)
        #expect(again.output.contains("token: migrated before\n") && again.output.contains("port: refused"))
    }

    @Test(
        arguments: [
            ("{", "it is not JSON."), ("[]", "the top level has the wrong type."),
            ("{}", "there is no name in the top level."),
            (
                #"{"name": "n", "items": [{"key": "k", "type": "word"}]}"#,
                "items[0].type is not one of string"
            ),
            (
                #"{"name": "n", "items": [{"key": "k", "type": "data", "class": "never"}]}"#,
                "unknown class never"
            ),
            (#"{"name": "n", "source": {}, "items": []}"#, "source must be one of"),
            (#"{"name": "n", "source": {"json": "a", "netrc": "b"}, "items": []}"#, "source must be one of"),
            (#"{"name": "", "items": []}"#, "name is empty"),
            (
                #"{"name": "n", "items": [{"key": "k", "type": "data"}, {"key": "k", "type": "set"}]}"#,
                "same old key"
            ),
        ]
    )
    func manifestsThatAreNone(_ manifest: String, _ message: String) throws {
        let outcome = try sandbox.lockbox("migrate", try sandbox.file("manifest.json", manifest))
        #expect(outcome.status == 64)
        #expect(outcome.error.contains(message), "\(outcome.error)")
        #expect(outcome.error.split(separator: "\n").count == 1)
        #expect(try sandbox.lockbox("migrate", "\(sandbox.home)/none").status == 74)
    }

    @Test func aStoreThatIsLocked() throws {
        let passcode = try sandbox.setPasscode()
        let file = try sandbox.file("env", "TOKEN=s3cret\n")
        #expect(try sandbox.lockbox("import-env", file, "--remove").status == 2)
        #expect(try sandbox.text(file) == "TOKEN=s3cret\n")
        #expect(try sandbox.lockbox("import-env", file, "--remove", "--passcode-file", passcode).status == 0)
        #expect(try sandbox.text(file) == "")
        #expect(try sandbox.lockbox("get", "TOKEN", "--passcode-file", passcode).output == "s3cret")
    }

    /// A file that its writer can replace, and no pipe.
    @Test(arguments: ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"]) func aPipeIsNoFile(_ path: String) throws
    {
        for command in ["import-env", "import-netrc"] {
            let outcome = try sandbox.lockbox(command, path, text: "TOKEN=s3cret\n")
            #expect(outcome.status != 0 && outcome.output == "")
            #expect(outcome.error.contains("it is a pipe"), "\(outcome.error)")
        }
    }

    @Test func aDashIsNoFile() throws {
        let commands = [
            ["export", "-"], ["import", "-"], ["import-env", "-"], ["import-netrc", "-"], ["migrate", "-"],
        ]
        for arguments in commands {
            let outcome = try sandbox.execution(arguments).run()
            #expect(outcome.status == 64 && outcome.output == "")
            #expect(outcome.error.contains("Name a file"), "\(outcome.error)")
        }
    }

    @Test func aRefusalIsAboutTheFile() throws {
        let file = try sandbox.file("env", "A=$B\nC=s3cret\nD=$E\n")
        let outcome = try sandbox.lockbox("import-env", file)
        #expect(outcome.status == 4)
        #expect(
            outcome.error.contains("was refused and is unchanged") && outcome.error.contains("lines 1, 3")
        )
        #expect(!outcome.error.contains("damaged") && !outcome.error.contains("backup"))
        #expect(!outcome.error.contains("s3cret"))
    }

    @Test func aManifestAndAFileOfWindows() throws {
        let settings = try sandbox.file("settings.json", "\u{FEFF}{\"a\": 1}")
        let items = #""items": [{"key": "a", "type": "value"}]"#
        let manifest = try sandbox.file(
            "manifest.json",
            "\u{FEFF}" + #"{"name": "n", "source": {"json": "\#(settings)"}, \#(items)}"#
        )
        let outcome = try sandbox.lockbox("migrate", manifest)
        #expect(outcome.status == 0 && outcome.output == "a: migrated\n", "\(outcome.error)")
        #expect(try sandbox.text(settings) == "\u{FEFF}{}")
    }

    /// The command's own types mean nothing to its users.
    @Test func aValueThatJSONDoesNotHave() throws {
        let settings = try sandbox.file(
            "settings.plist",
            #"<plist version="1.0"><dict><key>a</key><date>2026-12-24T00:00:00Z</date></dict></plist>"#
        )
        let manifest = try sandbox.file(
            "manifest.json",
            #"{"name": "n", "source": {"propertyList": "\#(settings)"}, "items": [{"key": "a", "type": "value"}]}"#
        )
        let outcome = try sandbox.lockbox("migrate", manifest)
        #expect(outcome.status == 4)
        #expect(outcome.output == "a: refused: it cannot be stored as JSON\n")
    }
}
