import Foundation
import Lockbox
import Testing

/// A damaged item beside a good one, and what the programs get that ask for either.
@Suite struct DamagedItemTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

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

    // MARK: git

    private func git(_ operation: String, _ lines: String...) throws -> Outcome {
        let request = (["protocol=https", "host=example.com"] + lines).map { "\($0)\n" }.joined()
        return try sandbox.lockbox("git-credential", operation, text: request)
    }

    private func approve(_ user: String, _ password: String) throws {
        let outcome = try git("store", "username=\(user)", "password=\(password)")
        #expect(outcome.status == 0 && outcome.output == "" && outcome.error == "")
    }

    /// git asks, the person types, and git tells the helper.
    @Test(arguments: Sandbox.Damage.allCases)
    func aDamagedPasswordIsReplacedByANewOne(_ damage: Sandbox.Damage) throws {
        try sandbox.damage(damage) { try approve("bob", "old") }
        #expect(try git("get").status == 3)
        try approve("bob", "new")
        let found = try git("get")
        #expect(found.status == 0 && found.output == "username=bob\npassword=new\n" && found.error == "")
    }

    @Test func whatDockerAddsOutlivesTheDamage() throws {
        try sandbox.damage(.ofTheValue) { try login("example.com", "bob") }
        try approve("bob", "new")
        #expect(try sandbox.docker("list").output.contains(#""example.com":"bob""#))
        #expect(try sandbox.docker("get", "example.com").output.contains(#""Secret":"new""#))
    }

    @Test(arguments: Sandbox.Damage.allCases)
    func aDamagedRefreshTokenIsReplacedToo(_ damage: Sandbox.Damage) throws {
        try approve("bob", "b")
        let account = InternetPassword(
            server: "example.com",
            account: "bob",
            protocol: "https",
            authenticationType: "oauth_refresh_token"
        )
        try sandbox.damage(damage) {
            try sandbox.library(InternetPassword.sharedPrefix)
                .archiveObject(Data("r".utf8), forKey: account.key)
        }
        try approve("bob", "b")
        let found = try git("get")
        #expect(found.status == 0 && found.output == "username=bob\npassword=b\n" && found.error == "")
    }

    @Test(arguments: Sandbox.Damage.allCases)
    func getNamesWhatItWentPast(_ damage: Sandbox.Damage) throws {
        try approve("alice", "a")
        try sandbox.damage(damage) { try approve("bob", "b") }
        let found = try git("get")
        #expect(found.status == 0 && found.output == "username=alice\npassword=a\n")
        #expect(found.error.contains(damage == .ofTheValue ? "bob@example.com" : "damaged"))
    }

    /// git says that the password is wrong. Which account it is for, it does not always say.
    @Test func eraseGoesPastADamagedPassword() throws {
        try approve("alice", "p")
        try sandbox.damage(.ofTheValue) { try approve("bob", "p") }
        try approve("carol", "other")
        let erased = try git("erase", "password=p")
        #expect(erased.status == 3 && erased.output == "" && erased.error.contains("bob@example.com"))
        let left = try sandbox.lockbox("list", "--prefix", InternetPassword.sharedPrefix).output
        #expect(left == "https://bob@example.com\nhttps://carol@example.com\n")
    }

    // MARK: Docker

    private func login(_ server: String, _ user: String) throws {
        let login = #"{"ServerURL":"\#(server)","Username":"\#(user)","Secret":"of \#(user)"}"#
        try #require(try sandbox.docker("store", login).status == 0)
    }

    @Test(arguments: Sandbox.Damage.allCases)
    func getNamesTheDamageAndGivesTheOthers(_ damage: Sandbox.Damage) throws {
        try login("good.example", "eve")
        try sandbox.damage(damage) { try login("bad.example", "david") }
        let bad = try sandbox.docker("get", "bad.example")
        #expect(bad.status == 1 && !(bad.output + bad.error).contains("of david"))
        // If the key cannot be read, nobody knows whose it is. It is named, and Docker asks for a password.
        let named = damage == .ofTheValue ? bad.output : bad.error
        #expect(named.contains("damaged") || named.contains("tampered"))
        #expect(try sandbox.docker("get", "good.example").output.contains("of eve"))
    }

    @Test(arguments: Sandbox.Damage.allCases)
    func listNamesTheDamageAndListsTheOthers(_ damage: Sandbox.Damage) throws {
        try login("good.example", "eve")
        try sandbox.damage(damage) { try login("bad.example", "david") }
        let list = try sandbox.docker("list")
        #expect(list.status == 0 && list.output.contains(#""good.example":"eve""#))
        // The value is not needed for it.
        #expect(list.output.contains("bad.example") == (damage == .ofTheValue))
        #expect(list.error.isEmpty == (damage == .ofTheValue))
    }

    @Test func aDamagedPasswordIsErased() throws {
        try login("good.example", "eve")
        try sandbox.damage(.ofTheValue) { try login("bad.example", "david") }
        #expect(try sandbox.docker("erase", "bad.example").status == 0)
        #expect(try sandbox.docker("list").output == #"{"good.example":"eve"}"# + "\n")
    }

    /// `docker logout` must not say that a password is gone which is still there.
    @Test func whatCannotBeReadIsNotSaidToBeErased() throws {
        try login("good.example", "eve")
        try sandbox.damage(.ofEverything) { try login("bad.example", "david") }
        let bad = try sandbox.docker("erase", "bad.example")
        #expect(bad.status == 1 && bad.output.contains("cannot be read") && bad.error.contains("/items/"))
        #expect(try sandbox.docker("get", "good.example").output.contains("of eve"))
        // Docker has one password for a server, and that one is gone.
        let good = try sandbox.docker("erase", "good.example")
        #expect(good.status == 0 && good.output == "")
        #expect(try sandbox.docker("list").output == "{}\n")
        // What git has stored for the server is removed, and Docker's own may be what cannot be read.
        let git = "protocol=https\nhost=bad.example\nusername=git\npassword=g\n"
        #expect(try sandbox.lockbox("git-credential", "store", text: git).status == 0)
        #expect(try sandbox.docker("erase", "bad.example").status == 1)
        #expect(try sandbox.library(InternetPassword.sharedPrefix).list().items.isEmpty)
    }

    /// As `unzip` and `cp -r` leave them.
    @Test func whatOnlyPermissionsHideIsNotRemoved() throws {
        try sandbox.lockbox("set", "token", text: "v")
        let items = "\(sandbox.store)/items"
        let record = try #require(
            FileManager.default.subpathsOfDirectory(atPath: items).first {
                $0.split(separator: "/").count == 2 && !$0.contains("/.") && !$0.hasSuffix("lock")
            }
        )
        try #require(chmod("\(items)/\(record)", 0o640) == 0)
        let list = try sandbox.lockbox("list")
        #expect(list.status == 3 && list.error.contains("chmod -R go-rwx \(sandbox.store)"))
        #expect(!list.error.contains("remove") && !list.error.contains("quarantine"))
        let refused = try sandbox.lockbox("remove", "--record", record)
        #expect(refused.status == 2 && refused.error.contains("--yes"), "\(refused.error)")
        try sandbox.lockbox("remove", "--record", record, typing: [.init("[y/N] ", "n\n")])
        try #require(chmod("\(items)/\(record)", 0o600) == 0)
        #expect(try sandbox.lockbox("get", "token").output == "v")
        try #require(chmod("\(items)/\(record)", 0o640) == 0)
        #expect(try sandbox.lockbox("remove", "--record", record, "--yes").status == 0)
        #expect(try sandbox.lockbox("list").output == "")
    }
}
