import Foundation
import Testing

@Suite struct DockerCredentialTests {
    let sandbox: Sandbox
    let helper: String

    init() throws {
        sandbox = try Sandbox()
        helper = "\(sandbox.home)/docker-credential-lockbox"
        try FileManager.default.createSymbolicLink(atPath: helper, withDestinationPath: Sandbox.executable)
    }

    private func docker(_ action: String, _ input: String = "") throws -> Outcome {
        var execution = sandbox.execution([action], executable: helper)
        execution.input = Data(input.utf8)
        return try execution.run()
    }

    private struct Credentials: Codable, Equatable { var ServerURL, Username, Secret: String }

    private let server = "https://index.docker.io/v1/"

    private func store(_ user: String, _ secret: String) throws -> Outcome {
        let input = try JSONEncoder().encode(Credentials(ServerURL: server, Username: user, Secret: secret))
        return try docker("store", String(decoding: input, as: UTF8.self))
    }

    @Test func storeGetListErase() throws {
        let stored = try store("david", "passw0rd1")
        #expect(stored.status == 0 && stored.output == "" && stored.error == "")
        let got = try docker("get", "\(server)\n")
        #expect(got.output == #"{"Secret":"passw0rd1","ServerURL":"\#(server)","Username":"david"}"# + "\n")
        #expect(try docker("list").output == #"{"\#(server)":"david"}"# + "\n")
        #expect(try store("eve", "another").status == 0)
        #expect(try docker("list").output == #"{"\#(server)":"eve"}"# + "\n")
        #expect(try docker("erase", server).status == 0)
        #expect(try docker("list").output == "{}\n")
    }

    /// Docker goes by the text.
    @Test func spacesAroundTheServerAreNotPartOfIt() throws {
        #expect(
            try docker(
                "store",
                #"{"ServerURL":" \#(server)\n","Username":"david","Secret":"s"}"#.replacing("\n", with: "\\n")
            ).status == 0
        )
        #expect(try docker("get", "\(server)\n").output.contains("david"))
    }

    @Test(arguments: [" ", "\t", "\r\n", "\u{B}\u{C}", "\u{85}", "\u{A0}", "\u{200B}", "\u{2028}\u{3000}"])
    func anySpace(_ space: String) throws {
        #expect(try store("david", "s").status == 0)
        #expect(try docker("get", "\(space)\(server)\(space)\(space)").output.contains("david"))
        #expect(try docker("get", space).output.contains("no credentials server URL"))
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
            let outcome = try docker(action, input)
            #expect(outcome.status == 1 && outcome.output == "\(text)\n", "\(action)")
        }
        let refused = try docker("store", "hunter2")
        #expect(
            refused.status == 1 && !refused.output.contains("hunter2") && !refused.error.contains("hunter2")
        )
    }

    @Test func itTellsItsVersion() throws {
        #expect(try docker("version").output.hasPrefix("docker-credential-lockbox (lockbox) "))
    }

    @Test func aLockedStoreListsAndNeverAsks() throws {
        #expect(try store("david", "passw0rd1").status == 0)
        let passcode = try sandbox.setPasscode()
        #expect(try docker("list").output.contains("david"))
        var execution = sandbox.execution(["get"], executable: helper)
        execution.input = Data(server.utf8)
        execution.terminal = [2]
        let locked = try execution.run()
        #expect(locked.status == 1 && locked.output.contains("locked") && locked.screen == "")
        sandbox.environment["LOCKBOX_PASSCODE_FILE"] = passcode
        #expect(try docker("get", server).output.contains("passw0rd1"))
    }
}
