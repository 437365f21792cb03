import Foundation
import Lockbox
import Testing

@Suite struct PasscodeTests {
    let sandbox: Sandbox
    let passcode: String

    init() throws {
        sandbox = try Sandbox()
        passcode = try sandbox.file("passcode", "correct horse\n")
    }

    /// A store with an item and a passcode, which no program has had yet.
    private func lockStore() throws {
        try sandbox.lockbox("set", "k", text: "hunter2")
        try sandbox.setPasscode()
    }

    private func state() throws -> String {
        struct Status: Decodable { var state: String }
        return try JSONDecoder().decode(Status.self, from: sandbox.lockbox("status", "--json").bytes).state
    }

    @Test func lockedIsAnErrorAtOnceWithoutATerminal() throws {
        try lockStore()
        for arguments in [
            ["get", "k"], ["set", "k"], ["passcode", "remove"], ["passcode", "change"], ["unlock"],
        ] {
            var execution = sandbox.execution(arguments)
            if arguments.first == "set" { execution.input = Data("new".utf8) }
            let outcome = try execution.run()
            #expect(outcome.status == 2 && outcome.output == "", "\(arguments)")
            #expect(
                outcome.error.contains("--passcode-file") && !outcome.error.contains("hunter2"),
                "\(outcome.error)"
            )
        }
        #expect(try sandbox.library().attributes(forKey: "k") != nil)
    }

    @Test func whatNeedsNoPasscodeWorksWhileLocked() throws {
        try lockStore()
        #expect(try sandbox.lockbox("list").output == "k\n")
        #expect(try sandbox.lockbox("info", "k").status == 0)
        #expect(try sandbox.lockbox("status").output.contains("locked"))
        #expect(try state() == "beforeFirstUnlock")
        #expect(try sandbox.lockbox("remove", "k").status == 0)
    }

    @Test func aFileOpensTheStore() throws {
        try lockStore()
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "hunter2")
        #expect(try sandbox.lockbox("set", "k", "--passcode-file", passcode, text: "new").status == 0)
        sandbox.environment["LOCKBOX_PASSCODE_FILE"] = passcode
        #expect(try sandbox.lockbox("get", "k").output == "new")
    }

    @Test func aDescriptorOpensTheStore() throws {
        try lockStore()
        var execution = sandbox.execution(["get", "k", "--passcode-fd", "7"])
        let descriptor = open(passcode, O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        execution.inherited = [7: descriptor]
        #expect(try execution.run().output == "hunter2")
        #expect(
            try sandbox.lockbox("get", "k", "--passcode-fd", "0", text: "correct horse").output == "hunter2"
        )
        #expect(try sandbox.lockbox("get", "k", "--passcode-fd", "1000").status == 74)
    }

    @Test func theEnvironmentOpensTheStore() throws {
        try lockStore()
        sandbox.environment["LOCKBOX_PASSCODE"] = "correct horse"
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
        sandbox.environment["LOCKBOX_PASSCODE"] = nil
        sandbox.environment["CREDENTIALS_DIRECTORY"] = sandbox.home
        #expect(try sandbox.lockbox("get", "k").status == 2)
        _ = try sandbox.file("lockbox-passcode", "correct horse\n")
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
    }

    @Test func aWrongPasscodeIsAnError() throws {
        try lockStore()
        let wrong = try sandbox.file("wrong", "swordfish")
        let outcome = try sandbox.lockbox("get", "k", "--passcode-file", wrong)
        #expect(outcome.status == 2 && !outcome.error.contains("swordfish") && outcome.output == "")
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", "\(sandbox.home)/none").status == 74)
    }

    @Test(.needsKernelKeyring) func anUnlockedStoreNeedsNoPasscode() throws {
        try lockStore()
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        try #require(try sandbox.lockbox("unlock", "--passcode-file", passcode).status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", "\(sandbox.home)/none").status == 74)
    }

    @Test func theTerminalIsAskedThreeTimes() throws {
        try lockStore()
        let right = try sandbox.lockbox(
            "get",
            "k",
            typing: [.init("Passcode", "swordfish\n"), .init("Passcode", "correct horse\n")]
        )
        #expect(right.status == 0 && right.screen.hasSuffix("hunter2\r\n"))
        #expect(!right.screen.contains("correct horse") && !right.screen.contains("swordfish"))
        let wrong = try sandbox.lockbox(
            "get",
            "k",
            typing: Array(repeating: .init("Passcode", "swordfish\n"), count: 3)
        )
        #expect(wrong.status == 2 && !wrong.screen.contains("hunter2"))
    }

    @Test func theTerminalIsAskedAlsoWhenTheValueIsPiped() throws {
        try lockStore()
        var execution = sandbox.execution(["set", "k"])
        execution.input = Data("piped".utf8)
        execution.terminal = [2]
        execution.answers = [.init("Passcode", "correct horse\n")]
        #expect(try execution.run().status == 0)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "piped")
    }

    @Test func aPasscodeIsTypedTwice() throws {
        try sandbox.lockbox("set", "k", text: "v")
        let different = try sandbox.lockbox(
            "passcode",
            "set",
            "--strength",
            "interactive",
            typing: [.init("New passcode", "one\n"), .init("Repeat it", "two\n")]
        )
        #expect(different.status == 2)
        #expect(try state() == "unprotected")
        let same = try sandbox.lockbox(
            "passcode",
            "set",
            "--strength",
            "interactive",
            typing: [.init("New passcode", "one\n"), .init("Repeat it", "one\n")]
        )
        #expect(same.status == 0)
        #expect(try state() == "beforeFirstUnlock")
    }

    @Test func setChangeRemove() throws {
        try lockStore()
        #expect(try sandbox.lockbox("passcode", "set", "--new-passcode-file", passcode).status == 4)
        let new = try sandbox.file("new", "battery staple")
        let change = ["passcode", "change", "--strength", "interactive", "--new-passcode-file", new]
        #expect(try sandbox.execution(change + ["--passcode-file", new]).run().status == 2)
        let changed = try sandbox.execution(change + ["--passcode-file", passcode]).run()
        #expect(changed.status == 0 && changed.error == "passcode: 1 of 1\n")
        #expect(changed.output == "items resealed: 1\nThe passcode is changed.\n")
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).status == 2)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", new).output == "hunter2")
        let removed = try sandbox.lockbox("passcode", "remove", "--passcode-file", new)
        #expect(removed.status == 0 && removed.output == "items resealed: 1\nThe passcode is removed.\n")
        #expect(removed.error.contains("It is always open"))
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
        #expect(try sandbox.lockbox("passcode", "remove").status == 2)
        #expect(try sandbox.lockbox("lock").status == 2)
    }

    /// Nobody is left with a store that only a code opens which may be lost, unless that was asked for.
    @Test(arguments: [true, false]) func theOtherSlotsAreNamed(_ keeps: Bool) throws {
        try lockStore()
        let backend = EncryptedFileBackend(directory: sandbox.store)
        try backend.unlock(.file(passcode))
        let code = RecoveryCode()
        try backend.addRecoveryCode(code, confirmation: .value(code.text), label: "in the safe")
        let remove = ["passcode", "remove", "--passcode-file", passcode]
        let refused = try sandbox.execution(remove).run()
        #expect(
            refused.status == 2
                && refused.error.contains("only these open the store: recovery-code (in the safe)")
        )
        let declined = [Execution.Answer("Remove the passcode? [y/N] ", "\n")]
        #expect(try sandbox.lockbox(remove, typing: declined).status == 4)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "hunter2")
        let removed = try sandbox.execution(remove + [keeps ? "--keep-slots" : "--all-slots"]).run()
        #expect(removed.status == 0 && removed.output == "items resealed: 1\nThe passcode is removed.\n")
        #expect(try backend.slots.map(\.kind) == (keeps ? [.recoveryCode] : []))
        #expect(try sandbox.lockbox("get", "k").status == (keeps ? 2 : 0))
    }

    /// An unlock in the kernel, which may be forged, does not stand in for a passcode that was given.
    @Test(.enabled(if: hasKernelKeyring)) func aGivenPasscodeIsCheckedInAnUnlockedStore() throws {
        try lockStore()
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        try #require(try sandbox.lockbox("unlock", "--passcode-file", passcode).status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
        let wrong = try sandbox.file("wrong", "another")
        #expect(try sandbox.lockbox("set", "k", "--passcode-file", wrong, text: "new").status == 2)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", wrong).status == 2)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "hunter2")
        #expect(try sandbox.lockbox("set", "k", "--passcode-file", passcode, text: "new").status == 0)
    }

    @Test func removingThePasscodeAsksIfItDestroysItems() throws {
        try lockStore()
        let bound = ["set", "bound", "--class", "whenPasscodeSetThisDeviceOnly", "--passcode-file", passcode]
        var storing = sandbox.execution(bound)
        storing.input = Data("v".utf8)
        #expect(try storing.run().status == 0)
        let kept = try sandbox.lockbox(
            "passcode",
            "remove",
            "--passcode-file",
            passcode,
            typing: [.init("Destroy", "n\n")]
        )
        #expect(kept.status == 4)
        #expect(try sandbox.lockbox("list").output == "bound\nk\n")
        let gone = try sandbox.lockbox(
            "passcode",
            "remove",
            "--passcode-file",
            passcode,
            typing: [.init("Destroy", "y\n")]
        )
        #expect(gone.status == 0)
        #expect(try sandbox.lockbox("list").output == "k\n")
    }

    @Test func aClassThatNeedsAPasscode() throws {
        #expect(
            try sandbox.lockbox("set", "k", "--class", "whenPasscodeSetThisDeviceOnly", text: "v").status == 2
        )
    }

    @Test func unlockIsForEveryProgramUntilLock() throws {
        try lockStore()
        try sandbox.lockbox(
            "set",
            "a",
            "--class",
            "afterFirstUnlock",
            "--passcode-file",
            passcode,
            text: "always there"
        )
        #expect(
            try sandbox.lockbox("unlock", "--passcode-file", try sandbox.file("wrong", "swordfish")).status
                == 2
        )
        #expect(try sandbox.lockbox("get", "k").status == 2)
        let unlocked = try sandbox.lockbox("unlock", "--timeout", "8h", "--passcode-file", passcode)
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        guard hasKernelKeyring else {
            // That must be said, and nothing may be open.
            #expect(
                unlocked.status == 2 && unlocked.error.contains("kernel")
                    && unlocked.error.contains("--passcode-file")
            )
            #expect(try sandbox.lockbox("get", "k").status == 2)
            return
        }
        #expect(unlocked.status == 0 && unlocked.error == "")
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
        #expect(try sandbox.lockbox("status").output.contains("every program"))
        #expect(try state() == "unlocked")
        #expect(try sandbox.lockbox("lock").status == 0)
        #expect(try state() == "locked")
        #expect(try sandbox.lockbox("get", "k").status == 2)
        #expect(try sandbox.lockbox("get", "a").output == "always there")
        #expect(try sandbox.lockbox("lock", "--all").status == 0)
        #expect(try sandbox.lockbox("get", "a").status == 2)
        #expect(try state() == "beforeFirstUnlock")
    }

    @Test(arguments: ["8", "0h", "soon", "-1h"])
    func anythingElseIsNoTimeout(_ text: String) throws {
        #expect(try sandbox.lockbox("unlock", "--timeout=\(text)").status == 64)
    }

    @Test func unlockingAStoreWithoutAPasscode() throws {
        let outcome = try sandbox.lockbox("unlock")
        #expect(outcome.status == 0 && outcome.error.contains("no passcode"))
        #expect(try sandbox.lockbox("unlock", "--quiet").error == "")
        #expect(!FileManager.default.fileExists(atPath: sandbox.store))
    }

    @Test func statusShowsItemsThatAreLeftForLater() throws {
        struct Status: Decodable { var epoch: UInt32?, olderEpochs: [UInt32] }
        func status() throws -> Status {
            try JSONDecoder().decode(Status.self, from: sandbox.lockbox("status", "--json").bytes)
        }
        #expect(try status().epoch == nil)
        try sandbox.lockbox("set", "a", text: "v")
        #expect(try status().epoch == 1 && status().olderEpochs == [])
        let file = try sandbox.file("new", "1234")
        let set = try sandbox.lockbox("passcode", "set", "--new-passcode-file", file, "--later")
        #expect(set.status == 0, "\(set.error)")
        #expect(try status().epoch == 2 && status().olderEpochs == [1])
        #expect(try sandbox.lockbox("status").output.contains("run lockbox rotate"))
        #expect(try sandbox.lockbox("rotate", "--passcode-file", file).status == 0)
        #expect(try status().epoch == 3 && status().olderEpochs == [])
    }

    @Test func statusCountsThePrefixes() throws {
        for (prefix, key) in [("p", "a"), ("p", "b"), ("q", "a")] {
            try sandbox.lockbox("set", key, "--prefix", prefix, text: "v")
        }
        struct Status: Decodable, Equatable { var directory, state: String; var prefixes: [String: Int] }
        let status = try JSONDecoder().decode(Status.self, from: sandbox.lockbox("status", "--json").bytes)
        #expect(status == Status(directory: sandbox.store, state: "unprotected", prefixes: ["p": 2, "q": 1]))
    }
}
