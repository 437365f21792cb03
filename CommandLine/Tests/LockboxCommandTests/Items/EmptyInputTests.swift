import Foundation
import Lockbox
import Testing

/// What a command that failed has not written must not take the place of a secret.
@Suite struct EmptyInputTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private func shell(_ line: String) throws -> Outcome {
        try sandbox.execution(["-c", line, Sandbox.executable], executable: "/bin/sh").run()
    }

    private func expectRefused(_ outcome: Outcome, _ what: String) throws {
        #expect(outcome.status == 64 && outcome.output == "", "\(what): \(outcome.status)")
        let message = outcome.error + outcome.screen
        #expect(message.contains("The value is empty") && message.contains("--allow-empty"), "\(message)")
        #expect(try sandbox.lockbox("get", "token").output == "before", "\(what)")
    }

    @Test(arguments: [
        "false | \"$0\" set token", "\"$0\" set token </dev/null", "echo \"$UNSET\" | \"$0\" set token",
        "printf '\\r\\n' | \"$0\" set token", "false | \"$0\" set token --data",
        "false | \"$0\" set token --update", "false | \"$0\" set token --class always --expires 7d",
    ])
    func nothingIsNoValue(_ line: String) throws {
        try sandbox.lockbox("set", "token", text: "before")
        try expectRefused(shell(line), line)
    }

    @Test func nothingIsTyped() throws {
        try sandbox.lockbox("set", "token", text: "before")
        try expectRefused(
            sandbox.lockbox("set", "token", typing: [.init("Value: ", "\n")]),
            "an empty line"
        )
        #expect(try sandbox.lockbox("set", "new", typing: [.init("Value: ", "\n")]).status == 64)
        #expect(try sandbox.lockbox("list").output == "token\n")
    }

    @Test func itIsStoredWhereItIsMeant() throws {
        try sandbox.lockbox("set", "token", text: "before")
        for arguments in [["token"], ["token", "--data"], ["token", "--add"]] {
            if arguments.contains("--add") { try sandbox.lockbox("remove", "token") }
            let outcome = try sandbox.execution(["set", "--allow-empty"] + arguments).run()
            #expect(outcome.status == 0 && outcome.error == "")
            let read = try sandbox.lockbox("get", "token")
            #expect(read.status == 0 && read.output == "")
        }
        let typed = try sandbox.lockbox("set", "t", "--allow-empty", typing: [.init("Value: ", "\n")])
        #expect(typed.status == 0)
    }

    /// As JSON, an empty text is written down, and so is meant.
    @Test func emptyJSON() throws {
        try sandbox.lockbox("set", "token", text: "before")
        for arguments in [["token", "--json"], ["token", "--json", "--allow-empty"]] {
            let refused = try sandbox.execution(["set"] + arguments).run()
            #expect(refused.status == 64 && refused.error.contains("is empty, which is not valid JSON"))
            #expect(try sandbox.lockbox("get", "token").output == "before")
        }
        #expect(try sandbox.lockbox("set", "token", "--json", text: "\"\"").status == 0)
        #expect(try sandbox.lockbox("get", "token").output == "")
    }

    @Test func git() throws {
        let context = "protocol=https\nhost=h\nusername=u\n"
        func git(_ operation: String, _ text: String) throws -> Outcome {
            try sandbox.lockbox("git-credential", operation, text: context + text)
        }
        #expect(try git("store", "password=\n").error == "", "where there is none yet, it may be right")
        #expect(try git("get", "").output == "username=u\npassword=\n")
        #expect(try git("store", "password=hunter2\n").status == 0)
        let refused = try git("store", "password=\n")
        #expect(refused.status == 0 && refused.output == "" && refused.error.contains("empty password"))
        #expect(try git("get", "").output == "username=u\npassword=hunter2\n")
        #expect(try git("erase", "password=\n").status == 0)
        #expect(try git("get", "").output == "username=u\npassword=hunter2\n")
    }

    @Test(arguments: [#","Secret":"""#, ""]) func docker(_ secret: String) throws {
        func docker(_ action: String, _ text: String) throws -> Outcome {
            try sandbox.lockbox("docker-credential", action, text: text)
        }
        #expect(
            try docker("store", #"{"ServerURL":"s","Username":"u","Secret":"hunter2"}"#).status == 0
        )
        let refused = try docker("store", #"{"ServerURL":"s","Username":"u"\#(secret)}"#)
        #expect(refused.status == 1 && refused.output == "no credentials secret\n")
        #expect(try docker("get", "s").output.contains("hunter2"))
    }

    /// An empty variable is one, and takes nothing's place.
    @Test func anEnvironmentFile() throws {
        try sandbox.lockbox("set", "TOKEN", text: "before")
        let file = try sandbox.file("env", "TOKEN=\nDEBUG=\n")
        let outcome = try sandbox.lockbox("import-env", file, "--remove")
        #expect(outcome.status == 4 && outcome.output.contains("DEBUG: migrated\n"))
        #expect(try sandbox.lockbox("get", "TOKEN").output == "before")
        let debug = try sandbox.lockbox("get", "DEBUG")
        #expect(debug.status == 0 && debug.output == "")
        #expect(try Data(contentsOf: URL(fileURLWithPath: file)) == Data("TOKEN=\n".utf8))
    }

    @Test func passcodesAndPassphrases() throws {
        let empty = try sandbox.file("empty", "\n")
        try sandbox.lockbox("set", "k", text: "v")
        #expect(try sandbox.lockbox("passcode", "set", "--new-passcode-file", empty).status == 2)
        #expect(try sandbox.lockbox("get", "k").output == "v")
        let passcode = try sandbox.setPasscode()
        let changed = try sandbox.lockbox(
            "passcode",
            "change",
            "--passcode-file",
            passcode,
            "--new-passcode-file",
            empty
        )
        #expect(changed.status == 2 && changed.error.contains("empty"))
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "v")

        let backup = "\(sandbox.home)/backup"
        for (passphrase, status) in [(passcode, Int32(0)), (empty, 2)] {
            let exported = try sandbox.lockbox(
                "export",
                backup,
                "--passcode-file",
                passcode,
                "--passphrase-file",
                passphrase
            )
            #expect(exported.status == status)
        }
        let imported = try sandbox.lockbox(
            "import",
            backup,
            "--directory",
            "\(sandbox.home)/other",
            "--passphrase-file",
            passcode
        )
        #expect(imported.status == 0 && imported.output == "items imported: 1, unchanged: 0\n")
    }
}
