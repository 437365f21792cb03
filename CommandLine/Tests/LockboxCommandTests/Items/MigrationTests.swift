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
            ["export", "-"], ["import", "-"], ["import-env", "-"], ["import-netrc", "-"],
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
}
