import Foundation
import Lockbox
import Testing

@Suite struct DockerCredentialTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    private struct Credentials: Codable, Equatable { var ServerURL, Username, Secret: String }

    private let server = "https://index.docker.io/v1/"

    private func store(_ user: String, _ secret: String) throws -> Outcome {
        let input = try JSONEncoder().encode(Credentials(ServerURL: server, Username: user, Secret: secret))
        return try sandbox.docker("store", String(decoding: input, as: UTF8.self))
    }

    @Test func storeGetListErase() throws {
        let stored = try store("david", "passw0rd1")
        #expect(stored.status == 0 && stored.output == "" && stored.error == "")
        let got = try sandbox.docker("get", "\(server)\n")
        #expect(got.output == #"{"Secret":"passw0rd1","ServerURL":"\#(server)","Username":"david"}"# + "\n")
        #expect(try sandbox.docker("list").output == #"{"\#(server)":"david"}"# + "\n")
        #expect(try store("eve", "another").status == 0)
        #expect(try sandbox.docker("list").output == #"{"\#(server)":"eve"}"# + "\n")
        #expect(try sandbox.docker("erase", server).status == 0)
        #expect(try sandbox.docker("list").output == "{}\n")
    }

    /// Docker goes by the text.
    @Test func spacesAroundTheServerAreNotPartOfIt() throws {
        #expect(
            try sandbox.docker(
                "store",
                #"{"ServerURL":" \#(server)\n","Username":"david","Secret":"s"}"#.replacing("\n", with: "\\n")
            ).status == 0
        )
        #expect(try sandbox.docker("get", "\(server)\n").output.contains("david"))
    }

    @Test(arguments: [" ", "\t", "\r\n", "\u{B}\u{C}", "\u{85}", "\u{A0}", "\u{200B}", "\u{2028}\u{3000}"])
    func anySpace(_ space: String) throws {
        #expect(try store("david", "s").status == 0)
        #expect(try sandbox.docker("get", "\(space)\(server)\(space)\(space)").output.contains("david"))
        #expect(try sandbox.docker("get", space).output.contains("no credentials server URL"))
    }

    @Test func alsoForArgumentsThatAreNotText() throws {
        let line = "\(Sandbox.executable) docker-credential \"$(printf '\\377')\" </dev/null"
        let outcome = try sandbox.execution(["-c", line], executable: "/bin/sh").run()
        #expect(outcome.status == 1 && outcome.output.contains("UTF-8") && outcome.error == "")
    }

    @Test func errorsAreOnStandardOutputAsDockerKnowsThem() throws {
        let cases = [
            ("get", server, "credentials not found in native keychain"),
            ("get", " \n", "no credentials server URL"),
            ("erase", "", "no credentials server URL"),
            ("store", #"{"Username":"u","Secret":"s"}"#, "no credentials server URL"),
            ("store", #"{"ServerURL":"s","Secret":"s"}"#, "no credentials username"),
            ("nonsense", "", "Unknown credential action `nonsense`"),
            (
                "--nonsense", "",
                "Missing expected argument '<action>'. See `lockbox docker-credential --help`."
            ),
        ]
        for (action, input, text) in cases {
            let outcome = try sandbox.docker(action, input)
            #expect(outcome.status == 1 && outcome.output == "\(text)\n", "\(action)")
        }
        let refused = try sandbox.docker("store", "hunter2")
        #expect(
            refused.status == 1 && !refused.output.contains("hunter2") && !refused.error.contains("hunter2")
        )
    }

    @Test func itTellsItsVersion() throws {
        #expect(try sandbox.docker("version").output.hasPrefix("docker-credential-lockbox (lockbox) "))
    }

    @Test func aLockedStoreListsAndNeverAsks() throws {
        #expect(try store("david", "passw0rd1").status == 0)
        let passcode = try sandbox.setPasscode()
        #expect(try sandbox.docker("list").output.contains("david"))
        var execution = try sandbox.dockerHelper("get")
        execution.input = Data(server.utf8)
        execution.terminal = [2]
        let locked = try execution.run()
        #expect(locked.status == 1 && locked.output.contains("locked") && locked.screen == "")
        sandbox.environment["LOCKBOX_PASSCODE_FILE"] = passcode
        #expect(try sandbox.docker("get", server).output.contains("passw0rd1"))
    }

    private func git(_ operation: String, _ rest: String = "") throws -> String {
        let request = "protocol=https\nhost=ghcr.io\n\(rest)"
        return try sandbox.lockbox("git-credential", operation, text: request).output
    }

    /// An app, git and Docker.
    @Test func aPasswordIsTheSameForAllThree() throws {
        let lockbox = try sandbox.library(InternetPassword.sharedPrefix)
        let password = InternetPassword(server: "ghcr.io", account: "alice", protocol: "https")

        try lockbox.archiveObject(Data("app".utf8), forKey: password.key)
        #expect(try git("get") == "username=alice\npassword=app\n")
        #expect(try sandbox.docker("get", "ghcr.io").output.contains(#""Secret":"app""#))

        _ = try git("store", "username=alice\npassword=git\n")
        #expect(try lockbox[password.key] == Data("git".utf8))
        #expect(try sandbox.docker("get", "https://ghcr.io/").output.contains(#""Secret":"git""#))
        #expect(try sandbox.docker("list").output == "{}\n", "Docker may send what it lists to a builder")

        let login = #"{"ServerURL":"ghcr.io","Username":"alice","Secret":"docker"}"#
        #expect(try sandbox.docker("store", login).status == 0)
        #expect(try lockbox[password.key] == Data("docker".utf8))
        #expect(try git("get") == "username=alice\npassword=docker\n")
        #expect(try sandbox.docker("list").output == #"{"ghcr.io":"alice"}"# + "\n")
        // git stores what it has used, and does not know Docker's attribute.
        _ = try git("store", "username=alice\npassword=git again\n")
        #expect(try sandbox.docker("list").output == #"{"ghcr.io":"alice"}"# + "\n")

        #expect(try sandbox.docker("erase", "ghcr.io").status == 0)
        #expect(try git("get") == "" && lockbox[password.key] == nil)
    }

    /// The value of an item that somebody else made can be a string.
    @Test func stringsAreSecretsToo() throws {
        let password = InternetPassword(server: "s", account: "a", protocol: "https", port: 5000)
        try sandbox.library(InternetPassword.sharedPrefix)
            .archiveObject(
                "text",
                forKey: "any key",
                options: WriteOptions(attributes: .set(password.searchable))
            )
        #expect(try sandbox.docker("get", "s:5000").output.contains(#""Secret":"text""#))
        #expect(try sandbox.docker("erase", "s:5000").status == 0)
        #expect(try sandbox.library(InternetPassword.sharedPrefix).allKeys() == [])
    }

    @Test func anotherUserOfTheServerReplacesOnlyDockers() throws {
        let git = "protocol=https\nhost=index.docker.io\npath=v1/\nusername=git\npassword=g\n"
        #expect(try sandbox.lockbox("git-credential", "store", text: git).status == 0)
        #expect(try store("david", "s").status == 0 && store("eve", "t").status == 0)
        let keys = try sandbox.library(InternetPassword.sharedPrefix).allKeys()
        #expect(keys.count == 2 && !keys.contains { $0.contains("david") })
        #expect(try sandbox.docker("get", server).output.contains("eve"))
    }

    /// `docker logout` is not about what git and apps have stored for the same host.
    @Test func logoutRemovesWhatDockerHasStored() throws {
        let git = "username=alice\npassword=g\noauth_refresh_token=r\n"
        _ = try self.git("store", git)
        #expect(
            try sandbox.docker("store", #"{"ServerURL":"ghcr.io","Username":"bob","Secret":"s"}"#).status == 0
        )
        #expect(try sandbox.docker("erase", "ghcr.io").status == 0)
        #expect(try self.git("get") == git)
        #expect(try sandbox.docker("erase", "ghcr.io").status == 0)
        #expect(try sandbox.library(InternetPassword.sharedPrefix).allKeys() == [])
    }

    /// An account would be a line of git's protocol.
    @Test func noAccountIsALineOfGitsProtocol() throws {
        let login = #"{"ServerURL":"ghcr.io","Username":"x\npassword=y","Secret":"s"}"#
        #expect(try sandbox.docker("store", login).status == 1)
        let password = InternetPassword(server: "ghcr.io", account: "x\npassword=y", protocol: "https")
        try sandbox.library(InternetPassword.sharedPrefix).archiveObject(Data("s".utf8), forKey: password.key)
        #expect(try git("get") == "")
    }
}
