import Foundation
import Testing

/// Every command, and every exit status, at a terminal.
@Suite struct TerminalTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private typealias Answer = Execution.Answer

    private func at(_ arguments: [String], _ answers: [Execution.Answer] = []) throws -> Outcome {
        try sandbox.lockbox(arguments, typing: answers)
    }

    private func typing(_ text: String) -> [Answer] { [Answer("Passcode of the store: ", "\(text)\n")] }

    @Test func itemsWithoutAPasscode() throws {
        #expect(try at(["set", "token"], [Answer("Value: ", "8f14e45f\n")]).status == 0)
        #expect(try at(["get", "token"]).screen == "8f14e45f\r\n")
        #expect(try at(["list"]).screen == "token\r\n")
        let long = try at(["list", "--long"])
        #expect(long.status == 0 && long.screen.hasPrefix("\u{1B}[1mKEY"))
        let info = try at(["info", "token"])
        #expect(info.status == 0 && info.screen.contains("class     whenUnlocked\r\n"))
        #expect(try at(["status"]).screen.contains("no passcode"))
        let verified = try at(["verify"])
        #expect(verified.status == 0 && verified.screen.hasSuffix("items intact: 1, of which locked: 0\r\n"))
        let rotated = try at(["rotate"])
        #expect(verified.screen.contains("verify [") && rotated.screen.contains("rotate ["))
        #expect(rotated.status == 0 && rotated.screen.contains("items resealed: 1\r\n"))
        #expect(try at(["exec", "--", "sh", "-c", "echo $TOKEN"]).screen == "8f14e45f\r\n")
        #expect(try at(["exec", "--", "sh", "-c", "exit 7"]).status == 7)
        #expect(try at(["remove", "token"]).status == 0)
        #expect(try at(["clear"], [Answer("[y/N] ", "y\n")]).status == 0)
        #expect(try at(["list"]).screen.contains("There are no items"))
        #expect(try at(["--help"]).screen.contains("import-netrc"))
    }

    @Test func aStoreWithAPasscode() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let new = [Answer("New passcode: ", "battery\n"), Answer("Repeat it: ", "battery\n")]
        #expect(try at(["passcode", "set", "--strength", "interactive"], new).status == 0)
        #expect(try at(["get", "k"], typing("battery")).screen.hasSuffix("v\r\n"))
        #expect(try at(["set", "k"], [Answer("Value: ", "w\n")] + typing("battery")).status == 0)
        #expect(try at(["exec", "--", "sh", "-c", "echo $K"], typing("battery")).screen.hasSuffix("w\r\n"))
        #expect(try at(["rotate"], typing("battery")).status == 0)
        let changed = [Answer("New passcode: ", "staple\n"), Answer("Repeat it: ", "staple\n")]
        let change = ["passcode", "change", "--strength", "interactive"]
        #expect(try at(change, typing("battery") + changed).status == 0)
        let unlocked = try at(["unlock"], typing("battery") + typing("staple"))
        #expect(unlocked.screen.contains("The passcode is wrong. Try again."))
        #expect(unlocked.status == (hasKernelKeyring ? 0 : 2))
        #expect(try at(["lock", "--all"]).status == 0)
        #expect(try at(["status"]).screen.contains("state     locked"))
        #expect(try at(["get", "k"], typing("1") + typing("2") + typing("3")).status == 2)
        #expect(try at(["passcode", "remove"], typing("staple")).status == 0)
        #expect(try at(["get", "k"]).screen == "w\r\n")
    }

    @Test func whatOlderProgramsHaveStored() throws {
        let variables = try sandbox.file("env", "A=1\nB=2\n")
        let imported = try at(["import-env", variables])
        #expect(
            imported.status == 0 && imported.screen.contains("import [")
                && imported.screen.contains("] 2 of 2")
        )
        let logins = try sandbox.file("netrc", "machine h login u password p\n")
        #expect(try at(["import-netrc", logins]).status == 0)
        #expect(try sandbox.lockbox("list").output == "A\nB\nu@h\n")
    }

    @Test func everyStatus() throws {
        try sandbox.lockbox("set", "k", text: "v")
        #expect(try at(["get", "none"]).status == 1)
        #expect(try at(["get", "k", "--passcode-file", "/none"]).status == 2, "there is no passcode")
        #expect(try at(["set", "k", "--add"], [Answer("Value: ", "w\n")]).status == 4)
        #expect(try at(["get"]).status == 64)
        #expect(try at(["import", "/none"], [Answer("Passphrase", "p\n")]).status == 74)
        let passcode = try sandbox.setPasscode()
        #expect(try at(["get", "k"], typing("1") + typing("2") + typing("3")).status == 2)
        #expect(try at(["get", "k", "--passcode-file", passcode]).status == 0)
        try Data("x".utf8).write(to: URL(fileURLWithPath: "\(sandbox.store)/keybag"), options: [])
        let damaged = try at(["get", "k"])
        #expect(damaged.status == 3 && damaged.screen.hasPrefix("\u{1B}[31mlockbox:\u{1B}[0m "))
    }

    // MARK: How it looks

    @Test func colorIsForThoseWhoCanSeeIt() throws {
        sandbox.environment["NO_COLOR"] = "1"
        #expect(try at(["get", "none"]).screen.hasPrefix("lockbox: "))
        sandbox.environment["NO_COLOR"] = nil
        sandbox.environment["TERM"] = "dumb"
        try sandbox.lockbox("set", "k", text: "v")
        let verified = try at(["verify"])
        #expect(verified.screen == "verify: 1 of 1\r\nitems intact: 1, of which locked: 0\r\n")
    }

    @Test(arguments: [(60, 30), (30, 13), (16, 0)]) func theBarFits(_ columns: UInt16, _ width: Int) throws {
        try sandbox.lockbox("set", "k", text: "v")
        var execution = sandbox.execution(["verify"])
        execution.terminal = [2]
        execution.size.columns = columns
        let screen = try execution.run().screen
        let bar = width == 0 ? "" : " [\(String(repeating: "#", count: width))]"
        #expect(screen == "\rverify\(bar) 1 of 1\r\u{1B}[K")
    }

    // MARK: What is typed

    /// A terminal changes what it passes on: what it cannot have passed on whole is refused.
    @Test(arguments: [
        Data(repeating: 0x61, count: 5000) + Data("\n".utf8), Data([0x78, 0xFF, 0x79, 0x0A]),
        Data("first\nsecond\n".utf8),
        Data("first\nsecond".utf8),
    ])
    func whatIsNotOneLineOfTextIsRefused(_ typed: Data) throws {
        try sandbox.lockbox("set", "k", text: "before")
        let outcome = try at(["set", "k"], [Answer("Value: ", bytes: typed)])
        #expect(outcome.status == 64 && !outcome.screen.contains("first"), "\(outcome.screen)")
        #expect(try sandbox.lockbox("get", "k").output == "before")
    }

    /// As some programs paste them.
    @Test(arguments: ["v\n\n", "v\r\n", "v\r\r"]) func lineBreaksAfterTheLineAreNothing(_ typed: String)
        throws
    {
        #expect(try at(["set", "k"], [Answer("Value: ", typed)]).status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "v")
    }

    @Test func controlZTakesNothingAway() throws {
        #expect(try at(["set", "k"], [Answer("Value: ", "ab\u{1A}cd\n")]).status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "abcd")
    }

    /// As `nohup` has it.
    @Test func whatWasIgnoredIsIgnoredStill() throws {
        var execution = sandbox.execution(
            [
                "-c",
                "trap '' HUP; \(Sandbox.executable) set k && \(Sandbox.executable) exec -- grep SigIgn /proc/self/status",
            ],
            executable: "/bin/sh"
        )
        let passcode = try sandbox.setPasscode()
        execution.environment["LOCKBOX_PASSCODE_FILE"] = passcode
        execution.terminal = [0, 1, 2]
        execution.answers = [Answer("Value: ", "v\n")]
        let screen = try execution.run().screen
        // A set of signals, of which SIGHUP is the first.
        #expect(screen.contains(/SigIgn:\t[0-9a-f]{15}[13579bdf]/), "\(screen)")
    }
}
