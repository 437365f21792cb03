import Foundation
import Lockbox
import Testing

/// Variables that decide what code a program runs: from an `.env` file of somebody else into a store, and out of a store
/// into a command.
@Suite struct DangerousVariableTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    /// A program of that name in a folder of its own.
    private func program(_ name: String, in folder: String, _ script: String) throws -> String {
        let folder = "\(sandbox.home)/\(folder)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(script.utf8).write(to: URL(fileURLWithPath: "\(folder)/\(name)"))
        try #require(chmod("\(folder)/\(name)", 0o755) == 0)
        return folder
    }

    /// The patterns of the documentation's table.
    private static var documented: [Substring] {
        let path = URL(fileURLWithPath: #filePath)
            .appendingPathComponent("../../../../../Sources/Lockbox/Documentation.docc/Command.md")
            .standardized
        let lines = (try? String(contentsOf: path, encoding: .utf8).split(separator: "\n")) ?? []
        let table = lines.drop { !$0.hasPrefix("| variables decide |") }.dropFirst(2).prefix {
            $0.hasPrefix("|")
        }
        return table.flatMap { $0.split(separator: "|")[1].split { $0 == "`" || $0 == " " } }
    }

    // MARK: import-env

    @Test func everyDocumentedNameIsRefused() throws {
        let names = Self.documented.map { $0.replacing("*", with: "X") }
        try #require(names.count > 30 && names.contains("PATH") && names.contains("LD_X"))
        let file = try sandbox.file("env", (["TOKEN"] + names).map { "\($0)=v\n" }.joined())
        let outcome = try sandbox.lockbox("import-env", file, "--dry-run")
        #expect(outcome.status == 4)
        let lines = outcome.output.split(separator: "\n")
        #expect(lines.count == names.count + 1 && lines.first == "TOKEN: migrated")
        for name in names {
            #expect(lines.contains { $0.hasPrefix("\(name): refused: as \(name) it controls ") }, "\(name)")
        }
    }

    @Test func othersAreImportedBesideThem() throws {
        let contents = "LD_PRELOAD=/tmp/evil.so\nTOKEN=s3cret\npath=/tmp\nHTTPS_PROXY=http://proxy\n"
        let file = try sandbox.file("env", contents)
        let outcome = try sandbox.lockbox("import-env", file, "--remove")
        #expect(outcome.status == 4)
        #expect(outcome.output.contains("TOKEN: migrated\nHTTPS_PROXY: migrated\n"))
        #expect(outcome.output.contains("\npath: refused: as PATH it controls what a shell runs; "))
        #expect(!outcome.output.contains("evil"))
        #expect(outcome.error.hasSuffix("2 of 4 items were refused and are unchanged.\n"))
        #expect(try sandbox.lockbox("list").output == "HTTPS_PROXY\nTOKEN\n")
        #expect(try sandbox.text(file) == "LD_PRELOAD=/tmp/evil.so\npath=/tmp\n")

        let none = try sandbox.lockbox("import-env", file)
        #expect(none.status == 4)
        #expect(none.error.hasSuffix("2 of 2 items were refused and are unchanged.\n"))
        let wrong = try sandbox.lockbox("import-env", file, "--allow-variable", "ld_preload")
        #expect(wrong.error.contains("2 of 2"), "case counts")
        let named = try sandbox.lockbox(
            "import-env",
            file,
            "--allow-variable",
            "LD_PRELOAD",
            "--allow-variable",
            "PATH"
        )
        #expect(named.status == 0)
        #expect(try sandbox.lockbox("list").output == "HTTPS_PROXY\nLD_PRELOAD\nTOKEN\npath\n")
    }

    /// No list names them all.
    @Test func familiesAreRefused() throws {
        let names = """
            GIT_COMMON_DIR CFLAGS LDFLAGS CGO_CFLAGS CPATH LIBRARY_PATH GOPATH GOPROXY GONOSUMDB GOSUMDB RUBY_GC_X KUBECONFIG \
            NEW_TOOL_PATH ANY_CA_BUNDLE DOCKER_HOST X_PLUGINS PIP_INDEX_URL UV_INDEX_URL AWS_CONFIG_FILE AWS_CA_BUNDLE \
            AWS_ENDPOINT_URL ANSIBLE_CONFIG TF_CLI_CONFIG_FILE GNUPGHOME PGSERVICEFILE PGSYSCONFDIR PGSSLROOTCERT ODBCINI \
            HGRCPATH SVN_SSH CVS_RSH TEXINPUTS FONTCONFIG_FILE GDK_PIXBUF_MODULE_FILE GTK_MODULES FZF_DEFAULT_COMMAND MAVEN_OPTS \
            ANT_ARGS EMACSLOADPATH OCAMLRUNPARAM NIX_PATH HISTFILE_DIR MYSQL_HOME SSH_AUTH_SOCK RIPGREP_CONFIG_PATH
            """.split(separator: " ").map(String.init)
        let secrets = [
            "GIT_TOKEN", "NODE_AUTH_TOKEN", "DOCKER_PASSWORD", "API_KEY", "DATABASE_URL", "PGHOST",
            "AWS_PROFILE",
            "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "SMTP_USER", "SENTRY_DSN", "STRIPE_WEBHOOK_SECRET",
        ]
        let file = try sandbox.file("env", (names + secrets).map { "\($0)=v\n" }.joined())
        let lines = try sandbox.lockbox("import-env", file, "--dry-run").output.split(separator: "\n")
        for name in names { #expect(lines.contains { $0.hasPrefix("\(name): refused: ") }, "\(name)") }
        for name in secrets { #expect(lines.contains { $0 == "\(name): migrated" }, "\(name)") }
    }

    // MARK: exec

    @Test(arguments: ["LD_PRELOAD", "path", "bash.env", "PYTHONPATH", "git-ssh-command", "_java_options"])
    func nothingIsRunWithOne(_ key: String) throws {
        try sandbox.lockbox("set", "token", text: "s3cret")
        try sandbox.lockbox("set", key, text: "v")
        let name = key.uppercased().replacing(/[.-]/, with: "_")
        for only in [[], ["--only", key]] {
            let refused = try sandbox.execution(["exec"] + only + ["--", "/bin/echo", "ran"]).run()
            #expect(refused.status == 4 && refused.output == "")
            #expect(refused.error.contains(String(reflecting: key)))
            #expect(refused.error.contains("use --allow-variable \(name) to"), "\(refused.error)")
        }
        #expect(try sandbox.lockbox("exec", "--only", "token", "--", "/bin/echo", "ran").output == "ran\n")
        let others = try sandbox.lockbox("exec", "--allow-variable", "OTHER", "--", "/bin/echo", "ran")
        #expect(others.status == 4 && others.output == "")
    }

    @Test func oneThatIsNamedIsHandedOn() throws {
        try sandbox.lockbox("set", "bash_env", text: "/dev/null")
        try sandbox.lockbox("set", "lockbox passcode", text: "of another store")
        let outcome = try sandbox.lockbox(
            "exec",
            "--allow-variable",
            "BASH_ENV",
            "--allow-variable",
            "LOCKBOX_PASSCODE",
            "--",
            "/usr/bin/env"
        )
        #expect(outcome.output.contains("\nBASH_ENV=/dev/null\n"))
        #expect(outcome.output.contains("\nLOCKBOX_PASSCODE=of another store\n"))
    }

    /// The control is the command itself, which sees the new one.
    @Test func theProgramIsFoundInThePathFromBefore() throws {
        let mine = try program("tool", in: "mine", "#!/bin/sh\necho mine \"$PATH\"\n")
        let theirs = try program("tool", in: "theirs", "#!/bin/sh\necho theirs\n")
        sandbox.environment["PATH"] = "/nowhere:\(mine):/usr/bin:/bin"
        try sandbox.lockbox("set", "path", text: theirs)
        let outcome = try sandbox.lockbox("exec", "--allow-variable", "PATH", "--", "tool")
        #expect(outcome.status == 0 && outcome.output == "mine \(theirs)\n")
        let slash = try sandbox.lockbox("exec", "--allow-variable", "PATH", "--", "\(theirs)/tool")
        #expect(slash.output == "theirs\n")
    }

    /// As with execvp(3).
    @Test func howAProgramIsFound() throws {
        try sandbox.lockbox("set", "k", text: "v")
        // Without a first line for the kernel.
        let folder = try program("script", in: "a", "echo \"$K $1\"; exit 3\n")
        let forbidden = try program("script", in: "b", "#!/bin/sh\necho wrong\n")
        try #require(chmod("\(forbidden)/script", 0o644) == 0)
        _ = try program("plain", in: "b", "x")
        try #require(chmod("\(forbidden)/plain", 0o644) == 0)
        sandbox.environment["PATH"] = "\(sandbox.home)/a/script:\(forbidden):\(folder)"
        let outcome = try sandbox.lockbox("exec", "--", "script", "it's me")
        #expect(outcome.status == 3 && outcome.output == "v it's me\n", "past what cannot be run")
        #expect(try sandbox.lockbox("exec", "--", "plain").status == 126)
        #expect(try sandbox.lockbox("exec", "--", "none").status == 127)
        #expect(try sandbox.lockbox("exec", "--", "").status == 127)
        sandbox.environment["PATH"] = nil
        #expect(try sandbox.lockbox("exec", "--", "sh", "-c", "echo $K").output == "v\n")
        let here = "cd \(folder) && PATH=/nowhere: exec \"$0\" exec -- script here"
        let current = try sandbox.execution(["-c", here, Sandbox.executable], executable: "/bin/sh").run()
        #expect(current.output == "v here\n", "an empty element is the current folder")
    }
}
