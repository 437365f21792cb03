import Foundation
import Testing

/// A TPM in software as a slot.
@Suite(.enabled(if: Sandbox.hasTPM, "swtpm or lockbox-extended is not installed"))
struct HardwareTests {
    let sandbox: Sandbox
    private let server: Server
    private let tpm: [String]
    private let passcode: String
    private let pin: String
    private let wrong: String

    init() throws {
        sandbox = try Sandbox()
        let (state, port) = ("\(sandbox.home)/tpm", try TCPSocket.freePorts(2))
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
        server = try Server(
            [
                Server.path(of: "swtpm")!, "socket", "--tpm2", "--tpmstate", "dir=\(state)", "--server",
                "type=tcp,port=\(port)", "--ctrl", "type=tcp,port=\(port + 1)", "--flags",
                "not-need-init,startup-clear",
            ],
            log: "\(state).log"
        )
        // Its server serves one connection only, so the other port is asked.
        try #require(Server.waitUntilAnswering(port + 1))
        tpm = ["--tpm-device", "swtpm:host=127.0.0.1,port=\(port)"]
        pin = try sandbox.file("pin", "4711")
        wrong = try sandbox.file("wrong", "4712")
        try sandbox.lockbox("set", "k", text: "v")
        passcode = try sandbox.setPasscode()
    }

    private func run(_ arguments: [String]) throws -> Outcome { try sandbox.execution(arguments).run() }

    private func add(_ options: String...) throws -> Outcome {
        try run(
            ["slots", "add", "tpm", "--label", "laptop", "--all-classes", "--passcode-file", passcode]
                + options + tpm
        )
    }

    @Test func aPIN() throws {
        #expect(try add("--pin-file", pin).status == 4, "first a recovery code")
        let code = try sandbox.recoveryCode(passcode: passcode)
        let added = try add("--pin-file", pin)
        #expect(
            added.status == 0 && added.output.hasSuffix("The TPM unlocks all classes.\n"),
            "\(added.error)"
        )
        #expect(try sandbox.lockbox("slots").output.contains("tpm"))
        #expect(try sandbox.lockbox("get", "k").status == 2)
        #expect(try run(["get", "k", "--tpm", "--pin-file", pin] + tpm).output == "v")
        let program = ["exec", "--tpm", "--pin-file", pin] + tpm + ["--", "/bin/sh", "-c", "echo $K"]
        #expect(try run(program).output == "v\n")
        let refused = try run(["get", "k", "--tpm", "--pin-file", wrong] + tpm)
        #expect(refused.status == 2 && refused.error.contains("The PIN is wrong."), "\(refused.error)")
        // A new swtpm takes three.
        for _ in 1...3 { _ = try run(["get", "k", "--tpm", "--pin-file", wrong] + tpm) }
        let locked = try run(["get", "k", "--tpm", "--pin-file", pin] + tpm)
        #expect(locked.status == 74 && locked.error.contains("too many"), "\(locked.error)")
        #expect(try run(["get", "k", "--recovery-code-file", code]).output == "v", "the recovery code opens")
    }

    @Test func noPIN() throws {
        _ = try sandbox.recoveryCode(passcode: passcode)
        #expect(try add("--without-pin").status == 0)
        #expect(try run(["get", "k", "--tpm"] + tpm).output == "v")
        #expect(try add("--without-pin", "--pin-file", pin).status == 64)
    }

    /// This machine may have one, but the store has no slot for it.
    @Test func aSecurityKeyThatIsNoSlot() throws {
        let outcome = try sandbox.lockbox("get", "k", "--fido2")
        #expect(
            outcome.status == 2
                && outcome.error.contains("A security key was given, but the store \(sandbox.store) has"),
            "\(outcome.error)"
        )
        #expect(!outcome.error.contains("Touch"), "nobody is asked to touch it")
    }
}
