import Foundation
import Lockbox
import Testing

/// A damaged item beside a good one, and what the programs get that ask for either.
@Suite struct DamagedItemTests {
    let sandbox: Sandbox
    let helper: String

    init() throws {
        sandbox = try Sandbox()
        helper = "\(sandbox.home)/docker-credential-lockbox"
        try FileManager.default.createSymbolicLink(atPath: helper, withDestinationPath: Sandbox.executable)
    }

    // MARK: exec

    @Test(arguments: Sandbox.Damage.allCases)
    func nothingRunsWithLessThanWasAskedFor(_ damage: Sandbox.Damage) throws {
        try sandbox.lockbox("set", "good", text: "v")
        try sandbox.damage(damage) { try sandbox.lockbox("set", "bad", text: "hunter2") }
        for only in [[], ["--only", "bad"], ["--only", "good", "bad"]] {
            let outcome = try sandbox.execution(["exec"] + only + ["--", "echo", "ran"]).run()
            #expect(outcome.status == 3 && outcome.output == "", "\(only)")
            #expect(!outcome.error.isEmpty && !outcome.error.contains("hunter2"), "\(only)")
        }
        let good = try sandbox.lockbox("exec", "--only", "good", "--", "sh", "-c", "echo $GOOD")
        #expect(good.status == 0 && good.output == "v\n" && good.error == "")
    }

    // MARK: Docker

    private func docker(_ action: String, _ input: String = "") throws -> Outcome {
        var execution = sandbox.execution([action], executable: helper)
        execution.input = Data(input.utf8)
        return try execution.run()
    }

    private func login(_ server: String, _ user: String) throws {
        let login = #"{"ServerURL":"\#(server)","Username":"\#(user)","Secret":"of \#(user)"}"#
        try #require(try docker("store", login).status == 0)
    }

    @Test(arguments: Sandbox.Damage.allCases)
    func getNamesTheDamageAndGivesTheOthers(_ damage: Sandbox.Damage) throws {
        try login("good.example", "eve")
        try sandbox.damage(damage) { try login("bad.example", "david") }
        let bad = try docker("get", "bad.example")
        #expect(bad.status == 1 && !(bad.output + bad.error).contains("of david"))
        // If the key cannot be read, nobody knows whose it is. It is named, and Docker asks for a password.
        let named = damage == .ofTheValue ? bad.output : bad.error
        #expect(named.contains("damaged") || named.contains("tampered"))
        #expect(try docker("get", "good.example").output.contains("of eve"))
    }

    @Test(arguments: Sandbox.Damage.allCases)
    func listNamesTheDamageAndListsTheOthers(_ damage: Sandbox.Damage) throws {
        try login("good.example", "eve")
        try sandbox.damage(damage) { try login("bad.example", "david") }
        let list = try docker("list")
        #expect(list.status == 0 && list.output.contains(#""good.example":"eve""#))
        // The value is not needed for it.
        #expect(list.output.contains("bad.example") == (damage == .ofTheValue))
        #expect(list.error.isEmpty == (damage == .ofTheValue))
    }

    @Test func aDamagedPasswordIsErased() throws {
        try login("good.example", "eve")
        try sandbox.damage(.ofTheValue) { try login("bad.example", "david") }
        #expect(try docker("erase", "bad.example").status == 0)
        #expect(try docker("list").output == #"{"good.example":"eve"}"# + "\n")
    }

    /// `docker logout` must not say that a password is gone which is still there.
    @Test func whatCannotBeReadIsNotSaidToBeErased() throws {
        try login("good.example", "eve")
        try sandbox.damage(.ofEverything) { try login("bad.example", "david") }
        let bad = try docker("erase", "bad.example")
        #expect(bad.status == 1 && bad.output.contains("cannot be read") && bad.error.contains("/items/"))
        #expect(try docker("get", "good.example").output.contains("of eve"))
        // Docker has one password for a server, and that one is gone.
        let good = try docker("erase", "good.example")
        #expect(good.status == 0 && good.output == "")
        #expect(try docker("list").output == "{}\n")
        // What git has stored for the server is removed, and Docker's own may be what cannot be read.
        let git = "protocol=https\nhost=bad.example\nusername=git\npassword=g\n"
        #expect(try sandbox.lockbox("git-credential", "store", text: git).status == 0)
        #expect(try docker("erase", "bad.example").status == 1)
        #expect(try sandbox.library(InternetPassword.sharedPrefix).list().items.isEmpty)
    }
}
