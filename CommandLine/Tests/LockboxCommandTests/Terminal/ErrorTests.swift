import Foundation
import Lockbox
import Testing

@testable import LockboxCommand

/// Exit statuses, and what is said with them.
@Suite struct ErrorTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func isOneLine(_ outcome: Outcome) -> Bool {
        outcome.output.isEmpty && outcome.error.hasPrefix("lockbox: ") && outcome.error.hasSuffix(".\n")
            && outcome.error.count { $0.isNewline } == 1
    }

    @Test func noSuchItem() throws {
        let outcome = try sandbox.lockbox("get", "none")
        #expect(outcome.status == 1 && isOneLine(outcome))
        // Looking makes no store.
        #expect(!FileManager.default.fileExists(atPath: sandbox.store))
    }

    @Test func whatNobodyReadsOnStandardInputHoldsNothingUp() throws {
        let outcome = try sandbox.lockbox("get", "none", input: Data(count: 1_000_000))
        #expect(outcome.status == 1 && isOneLine(outcome))
    }

    @Test func damaged() throws {
        try sandbox.lockbox("set", "k", text: "hunter2")
        try #require(try FileManager.default.contentsOfDirectory(atPath: sandbox.store).contains("keybag"))
        let keybag = URL(fileURLWithPath: "\(sandbox.store)/keybag")
        var bytes = try Data(contentsOf: keybag)
        bytes[bytes.count / 2] ^= 1
        try bytes.write(to: keybag, options: [])
        for command in ["get", "info", "remove"] {
            let outcome = try sandbox.lockbox(command, "k")
            #expect(outcome.status == 3 && isOneLine(outcome), "\(command): \(outcome.error)")
        }
        let outcome = try sandbox.lockbox("set", "k", text: "hunter3")
        #expect(outcome.status == 3 && isOneLine(outcome) && !outcome.error.contains("hunter"))
    }

    @Test(arguments: [
        ["nonsense"], ["get"], ["get", "--nonsense", "k"], ["get", "k", "more"],
        ["set", "k", "--class", "none"],
        ["set", "k", "--json", "--data"], ["set", "k", "--add", "--update"],
        ["set", "k", "--passcode-fd", "0"],
        ["get", "k", "--passcode-file", "f", "--passcode-fd", "3"], ["get", ""], ["list", "--prefix", ""],
    ])
    func usage(_ arguments: [String]) throws {
        var execution = sandbox.execution(arguments)
        execution.input = Data("v".utf8)
        let outcome = try execution.run()
        #expect(outcome.status == 64 && isOneLine(outcome), "\(outcome.error)")
    }

    @Test(arguments: [
        ["set", "k", "hunter2"], ["set", "k", "--value", "hunter2"], ["set", "k", "--value=hunter2"],
        ["get", "k", "hunter2"], ["get", "k", "--json=hunter2"], ["get", "k", "-xunter2"],
        ["set", "k", "--class=hunter2"],
        ["set", "k", "--class", "hunter2"], ["set", "k", "--expires", "hunter2"], ["hunter2"],
        ["get", "k", "--passcode-fd", "hunter2"], ["get", "k", "--passcode-fd=hunter2"],
        ["set", "-----BEGIN KEY-----\nhunter2"], ["get", "k", "a\nhunter2"], ["get", "k", "hunter2 - x"],
        ["set", "k", "--strength", "x\nhunter2"], ["get", "k", "--json=x\nhunter2"],
        ["get", "k", "--passcode-fd", "1\nhunter2"], ["--hunter2=x"], ["GET", "hunter2"],
    ])
    func whatMayBeASecretIsNotRepeated(_ arguments: [String]) throws {
        var execution = sandbox.execution(arguments)
        execution.input = Data("v".utf8)
        let outcome = try execution.run()
        #expect(outcome.status == 64 && isOneLine(outcome), "\(outcome.error)")
        #expect(!outcome.error.contains("hunter2"), "\(outcome.error)")
        #expect(try sandbox.lockbox("list").output == "")
    }

    /// They say which option or command is meant, and where to read on.
    @Test(arguments: [
        (["get", "prefix", "--prefx", "web"], "Did you mean '--prefix'? See `lockbox get --help`"),
        (["set", "class", "--class", "foo"], "The value is invalid for '--class <class>'"),
        (["passcode", "set", "--new-passcode", "x"], "See `lockbox passcode set --help`"),
        (["set", "token", "--expire", "7d"], "check the spelling of the options before it"),
        (["GET", "k"], "There is no such command. See `lockbox --help`"),
        (["get", "-hash"], "with a dash after --"), (["set", "-phone"], "with a dash after --"),
    ])
    func mistakesAreExplained(_ arguments: [String], _ text: String) throws {
        let outcome = try sandbox.execution(arguments).run()
        #expect(
            outcome.status == 64 && isOneLine(outcome) && outcome.error.contains(text),
            "\(outcome.error)"
        )
    }

    /// The library's would be about Swift calls, or about what only a library cannot know.
    @Test(arguments: [
        (
            LockboxError.rolledBack(record: "https://a:2379", reason: "r"),
            "Check the cluster for a restored snapshot."
        ),
        (.rolledBack(record: "etcd:/s/k/keybag", reason: "r"), "run `lockbox accept-restored`"),
        (.rolledBack(record: "/s/items/a/b", reason: "r"), "or remove the item"),
        (
            .decodingFailed(key: "k", type: "String", underlying: CancellationError()),
            "Use --json to print it"
        ),
        (.wrongPasscode, "The passcode is wrong. Check it and try again, or use a recovery code"),
        (.missingKeyPrefix, "Use --prefix."),
        (.notEnoughMemory(bytes: 7), "run `lockbox passcode change --strength interactive`"),
        (.typeMismatch(key: "k", stored: .lockbox2, type: "String"), "Use `lockbox get`"),
        (.deviceKeyMismatch(source: "/k"), "name it with --device-key-file"),
        (.unsupportedVersion(record: "/s/keybag", version: 9), "Update lockbox."),
        (.conflict(record: "/s/keybag"), "Run the command again."),
        (.notSupported(operation: "x"), "Not supported: x. Nothing was changed."),
        (.invalidPasscode(reason: "it is empty"), "The passcode cannot be used: it is empty."),
        (.invalidDeviceKey(source: "/k", reason: "r"), "The device key (/k) cannot be used: r."),
        (.requirementNotMet(record: "/s/keybag", reason: "r"), "leave out the option"),
    ])
    func messagesAreAboutTheCommand(_ error: LockboxError, _ text: String) {
        let message = Failure(error).message
        #expect(message.contains(text) && message.hasSuffix("."), "\(message)")
    }

    @Test func aFileThatCannotBeReadSaysWhy() throws {
        let outcome = try sandbox.lockbox("import-env", "\(sandbox.home)/none")
        #expect(outcome.status == 74 && isOneLine(outcome), "\(outcome.error)")
        #expect(outcome.error.contains("none cannot be read: No such file or directory."))
    }

    @Test func aKeyMayBeginWithADash() throws {
        try sandbox.lockbox("set", "--", "-phone", text: "v")
        #expect(try sandbox.lockbox("get", "--", "-phone").output == "v")
        #expect(try sandbox.lockbox("list").output == "-phone\n")
        #expect(try sandbox.lockbox("get", "-h").output.contains("USAGE"))
    }

    @Test func aValueThatIsTooLarge() throws {
        let outcome = try sandbox.lockbox(
            "set",
            "k",
            "--data",
            input: Data(count: ArchivedValue.maximumSize + 1)
        )
        #expect(outcome.status == 64 && isOneLine(outcome))
        #expect(
            try sandbox.lockbox("set", "k", "--data", input: Data(count: ArchivedValue.maximumSize)).status
                == 0
        )
        #expect(try sandbox.lockbox("get", "k").bytes.count == ArchivedValue.maximumSize)
    }

    @Test func aFullDiskIsNotTakenForSuccess() throws {
        try sandbox.lockbox("set", "k", text: "v")
        var execution = sandbox.execution(["get", "k"])
        let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
        defer { close(full) }
        execution.inherited = [1: full]
        let outcome = try execution.run()
        #expect(outcome.status == 74 && isOneLine(outcome))
    }

    /// Also where nothing was asked of the store.
    @Test(arguments: [
        ["--help"], ["--version"], ["--generate-completion-script", "bash"], ["set", "--help"],
    ])
    func aFullDiskForHelp(_ arguments: [String]) throws {
        var execution = sandbox.execution(arguments)
        let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
        defer { close(full) }
        execution.inherited = [1: full]
        #expect(try execution.run().status == 74)
    }

    /// A file that is opened must not become standard error.
    @Test func closedDescriptors() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let passphrase = try sandbox.file("passphrase", "p")
        let line =
            "\(Sandbox.executable) export b --passphrase-file \(passphrase) --strength interactive <&- >&- 2>&-"
        let status = try sandbox.execution(["-c", "cd \(sandbox.home) && \(line)"], executable: "/bin/sh")
            .run().status
        #expect(status == 74, "it cannot say what it has done")
        let imported = try sandbox.lockbox(
            "import",
            "\(sandbox.home)/b",
            "--passphrase-file",
            passphrase,
            "--directory",
            "\(sandbox.home)/other"
        )
        #expect(imported.status == 0)
    }

    @Test func keysThatAreNotTextAreRefused() throws {
        let line = "\(Sandbox.executable) set \"$(printf 'k\\377')\" </dev/null"
        let outcome = try sandbox.execution(["-c", line], executable: "/bin/sh").run()
        #expect(outcome.status == 64 && isOneLine(outcome))
    }

    @Test func anEmptyDirectoryIsNotThisOne() throws {
        for command in ["set", "get", "list"] {
            var execution = sandbox.execution(command == "list" ? [command] : [command, "k"])
            execution.arguments += ["--directory", ""]
            let outcome = try execution.run()
            #expect(outcome.status == 64 && isOneLine(outcome))
        }
    }

    @Test func aStoreThatOthersCanChangeIsRefused() throws {
        try sandbox.lockbox("set", "k", text: "v")
        try #require(chmod(sandbox.store, 0o777) == 0)
        let outcome = try sandbox.lockbox("get", "k")
        #expect(outcome.status == 74 && isOneLine(outcome))
    }

    @Test func verboseSaysWhichStoreAndQuietSaysNothing() throws {
        let verbose = try sandbox.lockbox("set", "k", "--verbose", text: "hunter2")
        #expect(verbose.error.contains(sandbox.store) && !verbose.error.contains("hunter2"))
        #expect(try sandbox.lockbox("set", "k", "--quiet", text: "v").error == "")
    }

    @Test func everyCommandHasHelpWithAnExample() throws {
        let help = try sandbox.lockbox("--help")
        #expect(help.status == 0 && help.error == "")
        let commands = help.output.split(separator: "\n").compactMap { line -> String? in
            guard line.hasPrefix("  "), !line.hasPrefix("   "), line.dropFirst(2).first?.isLowercase == true
            else { return nil }
            return line.split(separator: " ").first.map(String.init)
        }
        #expect(commands.count > 5)
        for command in commands where command != "help" {
            let help = try sandbox.lockbox(command, "--help")
            #expect(help.status == 0 && help.output.contains("Example: "), "\(command)")
        }
    }

    @Test func theStoreAndThePrefixAreNamed() throws {
        for command in [["list"], ["get", "token"]] {
            let none = try sandbox.execution(command).run()
            #expect(none.status == 1 && none.error.contains("no store in \(sandbox.store)"), "\(none.error)")
        }
        let passcode = try sandbox.file("passcode", "correct horse\n")
        let given = try sandbox.lockbox("list", "--passcode-file", passcode)
        #expect(given.status == 2 && !given.error.contains("replaced"), "\(given.error)")
        try sandbox.lockbox("set", "token", text: "v")
        let empty = try sandbox.lockbox("list", "--prefix", "tpyo")
        #expect(empty.status == 0 && empty.output == "" && empty.error.contains("\"tpyo\""))
        let missing = try sandbox.lockbox("get", "none")
        #expect(missing.status == 1 && missing.error.contains(sandbox.store))
        let twice = try sandbox.lockbox("list", "--prefix", "a", "--prefix=b")
        #expect(twice.status == 64 && twice.error == "lockbox: --prefix was given 2 times. Give it once.\n")
    }
}
