import Foundation
import Lockbox
import Testing

@Suite struct ExecTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    @Test func itemsAreVariables() throws {
        try sandbox.lockbox("set", "web-shop/token", text: "8f14e45f")
        try sandbox.lockbox("set", "2nd", "--json", text: "[1, 2]")
        try sandbox.lockbox("set", "bytes", "--data", input: Data([0x61, 0xFF]))
        let outcome = try sandbox.lockbox("exec", "--", "/usr/bin/env")
        #expect(outcome.status == 0 && outcome.error == "")
        let lines = outcome.bytes.split(separator: 0x0A)
        for variable in ["WEB_SHOP_TOKEN=8f14e45f", "_2ND=[1, 2]", "HOME=\(sandbox.home)"] {
            #expect(lines.contains(Data(variable.utf8)), "\(variable)")
        }
        #expect(lines.contains(Data("BYTES=a".utf8) + [0xFF]))
    }

    @Test func onlyThoseThatAreNamed() throws {
        for key in ["a", "b", "c"] { try sandbox.lockbox("set", key, text: "of \(key)") }
        let outcome = try sandbox.lockbox("exec", "--only", "a", "c", "--", "/usr/bin/env")
        #expect(outcome.output.contains("\nA=of a\n") && outcome.output.contains("\nC=of c\n"))
        #expect(!outcome.output.contains("\nB="))
        #expect(try sandbox.lockbox("exec", "--only", "none", "--", "/usr/bin/env").status == 1)
    }

    @Test func argumentsAndStatusAreTheCommandsOwn() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let outcome = try sandbox.lockbox(
            "exec",
            "--",
            "sh",
            "-c",
            "cat; echo \"$K $0 $1\" >&2; exit 42",
            "--only",
            "it's me",
            text: "input"
        )
        #expect(outcome.status == 42 && outcome.output == "input" && outcome.error == "v --only it's me\n")
        #expect(try sandbox.lockbox("exec", "--", "sh", "-c", "kill -TERM $$").status == -SIGTERM)
    }

    /// Everybody can read the arguments of every process.
    @Test func noSecretIsInTheListOfProcesses() throws {
        let typed = Execution.Answer("Value: ", "hunter2-hunter2\n")
        try sandbox.lockbox("set", "token", typing: [typed])
        let list =
            "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; echo; test \"$TOKEN\" = hunter''2-hunter2"
        let outcome = try sandbox.lockbox("exec", "--only", "token", "--", "sh", "-c", list)
        #expect(outcome.status == 0 && outcome.output.contains("sh -c"))
        #expect(!outcome.output.contains("hunter2-hunter2"))
    }

    @Test func commandsThatCannotBeRun() throws {
        try sandbox.lockbox("set", "k", text: "v")
        #expect(try sandbox.lockbox("exec", "--", "no-such-command").status == 127)
        #expect(try sandbox.lockbox("exec", "--", "/").status == 126)
        #expect(try sandbox.lockbox("exec").status == 64)
        #expect(try sandbox.lockbox("exec", "--").status == 64)
    }

    @Test func nothingRunsWithLessThanWasAskedFor() throws {
        try sandbox.lockbox("set", "a.b", text: "1")
        try sandbox.lockbox("set", "a_b", text: "2")
        let collision = try sandbox.lockbox("exec", "--", "echo", "ran")
        #expect(collision.status == 4 && collision.output == "" && collision.error.contains("A_B"))
        #expect(try sandbox.lockbox("exec", "--only", "a.b", "--", "echo", "ran").output == "ran\n")

        try sandbox.library().archiveObject(
            "v",
            forKey: "gone",
            options: WriteOptions(expires: .at(Date(timeIntervalSinceNow: -1)))
        )
        let expired = try sandbox.lockbox("exec", "--only", "gone", "--", "echo", "ran")
        #expect(expired.status == 1 && expired.output == "" && expired.error.contains("\"gone\" has expired"))
        try sandbox.lockbox("remove", "gone", "a.b")

        try sandbox.lockbox("set", "nul", "--data", input: Data([0x61, 0, 0x62]))
        #expect(try sandbox.lockbox("exec", "--", "echo", "ran").status == 4)
    }

    /// A typing error in the prefix or the folder, or no store at all.
    @Test func nothingRunsWithNothing() throws {
        try sandbox.lockbox("set", "token", text: "v")
        for options in [["--prefix", "tpyo"], ["--directory", "\(sandbox.home)/none"]] {
            let outcome = try sandbox.execution(["exec"] + options + ["--", "echo", "ran"]).run()
            #expect(outcome.status == 1 && outcome.output == "")
            #expect(outcome.error.contains(options[1]) && outcome.error.contains("no items"))
        }
        #expect(!FileManager.default.fileExists(atPath: "\(sandbox.home)/none"))
        #expect(try sandbox.lockbox("exec", "--", "echo", "ran").output == "ran\n", "the control")
    }

    @Test func aLockedStoreAndWhatTheCommandDoesNotGet() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let passcode = try sandbox.setPasscode()
        let locked = try sandbox.lockbox("exec", "--", "echo", "ran")
        #expect(locked.status == 2 && locked.output == "")
        sandbox.environment["LOCKBOX_PASSCODE"] = "correct horse"
        let outcome = try sandbox.lockbox("exec", "--", "/usr/bin/env")
        #expect(outcome.output.contains("\nK=v\n") && !outcome.output.contains("correct horse"))
        sandbox.environment["LOCKBOX_PASSCODE"] = nil
        var execution = sandbox.execution(["exec", "--passcode-fd", "7", "--", "sh", "-c", "cat <&7"])
        let descriptor = open(passcode, O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        execution.inherited = [7: descriptor]
        let closed = try execution.run()
        #expect(closed.status != 0 && closed.output == "" && closed.error.contains("7"))
    }
}
