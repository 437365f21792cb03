import Foundation
import Lockbox
import Testing

/// Who may change what unlocks the store, and what is expected of a store.
@Suite struct CurrentPasscodeTests {
    let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        try sandbox.lockbox("set", "k", text: "hunter2")
    }

    /// Somebody may have found an unlocked terminal.
    @Test(.needsKernelKeyring) func anUnlockedStoreIsNotEnoughToChangeWhatUnlocksIt() throws {
        let passcode = try sandbox.setPasscode()
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        try #require(try sandbox.lockbox("unlock", "--passcode-file", passcode).status == 0)
        let new = try sandbox.file("new", "battery staple")
        let key = try sandbox.file("key", String(repeating: "k", count: 32))
        for arguments in [
            ["passcode", "change", "--new-passcode-file", new], ["passcode", "remove", "--yes"],
            ["passcode", "recovery", "--output-fd", "2", "--confirm-file", new],
            ["slots", "add", "key", "--key-file", key, "--label", "l"],
        ] {
            let outcome = try sandbox.execution(arguments).run()
            #expect(outcome.status == 2 && outcome.output == "", "\(arguments)")
            #expect(
                outcome.error.contains("current passcode is needed")
                    && outcome.error.contains("--passcode-file")
                    && outcome.error.contains("--recovery-code-file"),
                "\(outcome.error)"
            )
        }
        let change = ["passcode", "change", "--strength", "interactive", "--new-passcode-file", new]
        let wrong = try sandbox.execution(change + ["--passcode-file", new]).run()
        #expect(wrong.status == 2 && wrong.error.contains("The passcode is wrong"))
        var asked = sandbox.execution(change)
        asked.terminal = [0, 1, 2]
        asked.answers = [.init("Passcode of the store: ", "correct horse\n")]
        #expect(try asked.run().status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "hunter2", "it is unlocked as before")
    }

    /// It can be read only once, and is needed to unlock the store and to be checked.
    @Test func theCurrentPasscodeMayComeFromAPipe() throws {
        try sandbox.setPasscode()
        let new = try sandbox.file("new", "battery staple")
        let line =
            "printf 'correct horse' | \(Sandbox.executable) passcode change --strength interactive "
            + "--new-passcode-file \(new) --passcode-fd 0"
        #expect(try sandbox.execution(["-c", line], executable: "/bin/sh").run().status == 0)
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", new).output == "hunter2")
    }

    @Test func itemsCanBeLeftForLater() throws {
        let passcode = try sandbox.file("passcode", "correct horse\n")
        let before = try sandbox.itemFiles()
        let set = try sandbox.lockbox(
            "passcode",
            "set",
            "--later",
            "--new-passcode-file",
            passcode,
            "--strength",
            "interactive"
        )
        #expect(set.status == 0 && set.error == "")
        #expect(
            set.output.hasPrefix("The items are not resealed. Until `lockbox rotate`, whoever has the old")
        )
        #expect(try sandbox.itemFiles() == before)
        let change = try sandbox.lockbox(
            "passcode",
            "change",
            "--later",
            "--new-passcode-file",
            passcode,
            "--strength",
            "interactive",
            "--passcode-file",
            passcode
        )
        #expect(change.status == 0 && change.output.contains("not resealed"))
        #expect(try sandbox.itemFiles() == before)
        let rotated = try sandbox.lockbox("rotate", "--passcode-file", passcode)
        #expect(rotated.status == 0 && rotated.output == "items resealed: 1\n")
        let resealed = try sandbox.itemFiles()
        #expect(resealed != before)
        let removed = try sandbox.lockbox("passcode", "remove", "--later", "--passcode-file", passcode)
        #expect(removed.status == 0 && removed.output.contains("not resealed"))
        #expect(try sandbox.itemFiles() == resealed)
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
    }

    @Test func anItemThatCannotBeResealedIsNamed() throws {
        let passcode = try sandbox.file("passcode", "correct horse\n")
        try sandbox.damage(.ofTheValue) { try sandbox.lockbox("set", "bad", text: "v") }
        let set = try sandbox.lockbox(
            "passcode",
            "set",
            "--new-passcode-file",
            passcode,
            "--strength",
            "interactive"
        )
        #expect(set.status == 3 && set.output == "items resealed: 1\n")
        #expect(
            set.error.contains("\(sandbox.store)/items/") && set.error.contains("old keys")
        )
        #expect(try sandbox.lockbox("get", "k").status == 2, "the passcode is set")
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "hunter2")
    }

    // MARK: A store that has lost its passcode

    @Test(arguments: [
        ["get", "k"], ["set", "k"], ["exec", "--", "echo", "ran"], ["list"], ["info", "k"], ["remove", "k"],
        ["rotate"], ["verify"], ["unlock"], ["change", "k", "--label", "l"], ["git-credential", "get"],
    ])
    func aPasscodeForAStoreWithoutOneIsAnError(_ arguments: [String]) throws {
        let passcode = try sandbox.file("passcode", "correct horse\n")
        var execution = sandbox.execution(arguments)
        execution.arguments.insert(contentsOf: ["--passcode-file", passcode], at: 1)
        execution.input = Data((arguments[0] == "git-credential" ? "protocol=https\nhost=h\n\n" : "new").utf8)
        let given = try execution.run()
        execution.arguments = arguments
        execution.environment["LOCKBOX_PASSCODE_FILE"] = passcode
        for outcome in [given, try execution.run()] {
            #expect(outcome.status == 2 && outcome.output == "", "\(arguments)")
            #expect(
                outcome.error.contains("A passcode was given, but the store \(sandbox.store) has none")
                    && outcome.error.contains("lockbox passcode set"),
                "\(outcome.error)"
            )
        }
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
    }

    @Test func aPasscodeMayBeGivenWhereItIsSet() throws {
        let passcode = try sandbox.file("passcode", "correct horse\n")
        sandbox.environment["LOCKBOX_PASSCODE_FILE"] = passcode
        #expect(try sandbox.lockbox("status").status == 0)
        try sandbox.setPasscode()
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
    }

    // MARK: Requirements

    @Test func aStoreThatMustHaveAPasscode() throws {
        let refused = try sandbox.lockbox("get", "k", "--require-passcode")
        #expect(refused.status == 3 && refused.output == "")
        #expect(refused.error.contains("it has no passcode, and this program requires one"))
        let passcode = try sandbox.setPasscode("correct horse", "--require-passcode")
        let read = try sandbox.lockbox("get", "k", "--require-passcode", "--passcode-file", passcode)
        #expect(read.output == "hunter2")
    }

    @Test func itemsThatMustBeOfABetterClass() throws {
        try sandbox.lockbox("set", "a", "--class", "always", text: "v")
        let refused = try sandbox.lockbox("get", "a", "--minimum-class", "afterFirstUnlock")
        #expect(refused.status == 3 && refused.output == "" && refused.error.contains("its class is always"))
        #expect(try sandbox.lockbox("get", "k", "--minimum-class", "afterFirstUnlock").output == "hunter2")
        #expect(try sandbox.lockbox("get", "a", "--minimum-class", "x").status == 64)
    }

    @Test func aStoreThatMustBeTheSameOne() throws {
        struct Status: Decodable {
            struct Requirements: Decodable {
                let passcode: Bool
                let minimumClass, identity: String?
            }
            let identity: String
            let requirements: Requirements
        }
        let status = try JSONDecoder().decode(Status.self, from: sandbox.lockbox("status", "--json").bytes)
        let identity = status.identity
        #expect(status.requirements.identity == nil && !status.requirements.passcode)
        #expect(try sandbox.lockbox("get", "k", "--identity", identity.uppercased()).output == "hunter2")
        let other = String(identity.reversed())
        for arguments in [["get", "k"], ["passcode", "set", "--new-passcode-file", "/dev/null"], ["lock"]] {
            let refused = try sandbox.execution(arguments + ["--identity", other]).run()
            #expect(refused.status == 3 && refused.error.contains("its identity is"), "\(arguments)")
        }
        #expect(try sandbox.lockbox("get", "k", "--identity", "8f14e45f").status == 64)
        let shown = try sandbox.lockbox(
            "status",
            "--identity",
            identity,
            "--minimum-class",
            "afterFirstUnlock"
        )
        #expect(
            shown.output.contains(
                "required  items of the class afterFirstUnlock or better, the identity \(identity)\n"
            )
        )
        #expect(shown.output.contains("identity  \(identity)\n"))
    }
}
