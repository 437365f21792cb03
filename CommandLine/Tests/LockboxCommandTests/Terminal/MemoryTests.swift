import Foundation
import Testing

/// What other programs of the user can learn of the command's memory, and how long a passcode stays in it.
@Suite struct MemoryTests {
    let sandbox: Sandbox
    /// In the memory of no program that has not been given it.
    private let passcode = Self.random()

    init() throws {
        sandbox = try Sandbox()
        try sandbox.lockbox("set", "k", text: "hunter2")
    }

    private static func random() -> String {
        (0..<3).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }.joined(separator: "~")
    }

    /// Counts pieces of `texts` in the memory of the process that asks.
    private func count(_ texts: [String], in asked: Execution.Answer.Asked) -> [Int]? {
        guard let memory = ForeignMemory(of: asked.process) else { return nil }
        defer { memory.close() }
        return try? texts.map { try memory.count(ofAnyPieceOf: $0) }
    }

    // MARK: A typed passcode

    /// When it asks for the passphrase, it needs the passcode no more.
    @Test func theTypedPasscodeIsGoneWhenTheStoreIsOpen() throws {
        try sandbox.setPasscode(passcode)
        let passphrase = Self.random()
        var (passcodes, both): ([Int]?, [Int]?) = (nil, nil)
        let outcome = try sandbox.lockbox(
            "export",
            "\(sandbox.home)/backup",
            "--strength",
            "interactive",
            typing: [
                .init("Passcode of the store: ", "\(passcode)\n"),
                .init("New passphrase: ") {
                    passcodes = count([passcode], in: $0)
                    return Data("\(passphrase)\n".utf8)
                },
                .init("Repeat it: ") {
                    both = count([passcode, passphrase], in: $0)
                    return Data("\(passphrase)\n".utf8)
                },
            ]
        )
        #expect(outcome.status == 0, "\(outcome.screen)")
        guard let passcodes, let both else {
            #expect(getuid() != 0, "root can look into the memory of any process")
            return
        }
        #expect(passcodes == [0])
        #expect(both == [0, 1], "the control: what is still needed is found, and once")
    }

    /// Runs a command that is held up when it says what it has done, and counts pieces of `texts` in its memory then.
    private func counts(
        _ texts: [String],
        _ arguments: [String],
        _ answers: [Execution.Answer]
    ) throws -> [Int]? {
        let pipe = try FullPipe()
        var execution = sandbox.execution(arguments)
        execution.terminal = [0, 2]
        execution.inherited = [1: pipe.writing]
        execution.answers = answers
        var counts: [Int]?
        execution.watch = { process in
            guard pipe.isAwaited(by: process) || getuid() != 0 else { return }
            counts = counts ?? count(texts, in: .init(process: process, screen: ""))
            pipe.empty()
        }
        #expect(try execution.run().status == 0)
        #expect(counts != nil || getuid() != 0)
        return counts
    }

    @Test func theTypedPasscodeIsGoneWhenAValueIsPrinted() throws {
        let value = Self.random()
        try sandbox.lockbox("set", "k", text: value)
        try sandbox.setPasscode(passcode)
        let found = try counts(
            [passcode, value],
            ["get", "k"],
            [.init("Passcode of the store: ", "\(passcode)\n")]
        )
        guard let found else { return }
        #expect(found[0] == 0 && found[1] > 0, "the control: the value is there: \(found)")
    }

    @Test func bothPasscodesAreGoneWhenItIsChanged() throws {
        try sandbox.setPasscode(passcode)
        let new = Self.random()
        let found = try counts(
            [passcode, new],
            ["passcode", "change", "--strength", "interactive"],
            [
                .init("Passcode of the store: ", "\(passcode)\n"), .init("New passcode: ", "\(new)\n"),
                .init("Repeat it: ", "\(new)\n"),
            ]
        )
        guard let found else { return }
        #expect(found == [0, 0])
    }

    @Test func theNewPasscodeIsGoneWhenItIsSet() throws {
        let found = try counts(
            [passcode],
            ["passcode", "set", "--strength", "interactive"],
            [.init("New passcode: ", "\(passcode)\n"), .init("Repeat it: ", "\(passcode)\n")]
        )
        guard let found else { return }
        #expect(found == [0])
    }

    /// It is longer valid than a passcode.
    @Test func theTypedRecoveryCodeIsGoneWhenAValueIsPrinted() throws {
        let value = Self.random()
        try sandbox.lockbox("set", "k", text: value)
        try sandbox.setPasscode(passcode)
        let file = try sandbox.recoveryCode(passcode: "\(sandbox.home)/passcode")
        let code = try String(contentsOfFile: file, encoding: .utf8).trimmingCharacters(in: .newlines)
        let found = try counts(
            [code, value],
            ["get", "k", "--recovery-code"],
            [.init("Recovery code: ", "\(code)\n")]
        )
        guard let found else { return }
        #expect(found[0] == 0 && found[1] > 0, "the control: the value is there: \(found)")
    }

    // MARK: Other programs

    /// An execution as a user who is not root, whose files are in the sandbox.
    private func asUser(_ program: String, _ arguments: [String]) throws -> Execution? {
        guard getuid() == 0 else { return sandbox.execution(arguments, executable: program) }
        guard access("/usr/bin/setpriv", X_OK) == 0 else {
            print("skipped: there is no setpriv to become another user with")
            return nil
        }
        let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
        return sandbox.execution(user + [program] + arguments, executable: "/usr/bin/setpriv")
    }

    /// A copy of the command that another user can run, and a store of that user's.
    private func prepareForUser() throws -> String {
        let copy = "\(sandbox.home)/lockbox"
        // Not by this process: what is open for writing in any child of it cannot be run.
        let command = URL(filePath: Sandbox.executable).resolvingSymlinksInPath().path
        let copied = try sandbox.execution([command, copy], executable: "/bin/cp").run()
        try #require(copied.status == 0, "\(copied.error)")
        chmod(copy, 0o755)
        if getuid() == 0 {
            try FileManager.default.removeItem(atPath: sandbox.store)
            chown(sandbox.home, 65534, 65534)
        }
        return copy
    }

    @Test func otherProgramsCannotReadIt() throws {
        let command = try prepareForUser()
        guard var execution = try asUser("/bin/sh", ["-c", "ulimit -S -c 1000; exec '\(command)' set k"])
        else { return }
        var (owner, limits): (uid_t?, String) = (nil, "")
        execution.terminal = [0, 1, 2]
        execution.answers = [
            .init("Value: ") { asked in
                var status = stat()
                if stat("/proc/\(asked.process)/mem", &status) == 0 { owner = status.st_uid }
                limits = (try? String(contentsOfFile: "/proc/\(asked.process)/limits", encoding: .utf8)) ?? ""
                return Data("v\n".utf8)
            }
        ]
        #expect(try execution.run().status == 0)
        // The system gives the memory of a process that cannot be read to root.
        #expect(owner == 0)
        #expect(limits.contains(#/Max core file size +0 /#))
    }

    /// The program that exec starts is one like any other.
    @Test func anExecutedProgramIsAsIfStartedAlone() throws {
        let command = try prepareForUser()
        let program = "/bin/sh -c 'ulimit -S -c; stat -c %u /proc/self/mem'"
        let line =
            "ulimit -S -c 1000; printf v | '\(command)' set k && '\(command)' exec -- \(program)"
        guard let execution = try asUser("/bin/sh", ["-c", line]) else { return }
        let outcome = try execution.run()
        #expect(outcome.output == "1000\n\(getuid() == 0 ? 65534 : getuid())\n", "\(outcome.error)")
    }

    /// Its own descriptors can still be named as files.
    @Test func aPasscodeFromAShellsSubstitution() throws {
        let command = try prepareForUser()
        let passcode = try sandbox.file("passcode", "correct horse")
        if getuid() == 0 { chown(passcode, 65534, 65534) }
        let line = """
            printf v | '\(command)' set k &&
            '\(command)' passcode set --quiet --strength interactive --new-passcode-file <(cat '\(passcode)') &&
            '\(command)' get k --passcode-file <(cat '\(passcode)')
            """
        guard let execution = try asUser("/bin/bash", ["-c", line]) else { return }
        let outcome = try execution.run()
        #expect(outcome.status == 0 && outcome.output == "v", "\(outcome.error)")
    }
}
