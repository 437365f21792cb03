import Foundation
import Testing

/// A store that somebody has replaced by an older copy of it.
@Suite(.needsKernelKeyring) struct AcceptRestoredTests {
    let sandbox: Sandbox
    let passcode: String

    init() throws {
        sandbox = try Sandbox()
        try sandbox.lockbox("set", "k", text: "hunter2")
        passcode = try sandbox.setPasscode()
    }

    /// - Parameter change: What is lost.
    private func restore(after change: () throws -> Void) throws {
        let copy = "\(sandbox.home)/copy"
        try FileManager.default.copyItem(atPath: sandbox.store, toPath: copy)
        try change()
        try FileManager.default.removeItem(atPath: sandbox.store)
        try FileManager.default.moveItem(atPath: copy, toPath: sandbox.store)
        let outcome = try sandbox.lockbox("list")
        try #require(outcome.status == 3 && outcome.error.contains("run `lockbox accept-restored`"))
    }

    private func restore() throws {
        try restore {
            try #require(try sandbox.lockbox("rotate", "--passcode-file", passcode).status == 0)
        }
    }

    private func accept(_ options: String...) throws -> Outcome {
        try sandbox.execution(["accept-restored"] + options).run()
    }

    @Test func itIsAcceptedWithThePasscode() throws {
        try restore()
        let unasked = try accept("--passcode-file", passcode)
        #expect(unasked.status == 4 && unasked.error.contains("--yes"))
        let locked = try accept("--yes")
        #expect(locked.status == 2 && locked.error.contains("--passcode-file"))
        let wrong = try accept("--yes", "--passcode-file", sandbox.file("wrong", "swordfish"))
        #expect(wrong.status == 2 && wrong.error.contains("The passcode is wrong"))
        #expect(try sandbox.lockbox("status").status == 3)
        let accepted = try accept("--yes", "--passcode-file", passcode)
        #expect(accepted.status == 0, "\(accepted.error)")
        #expect(accepted.output == "items resealed: 1\nThe restored store is accepted. Its keys are new.\n")
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "hunter2")
    }

    @Test func atATerminalItAsksForAWholeWord() throws {
        try restore()
        let refused = try sandbox.lockbox("accept-restored", typing: [.init("Type yes: ", "y\n")])
        #expect(
            refused.status == 4
                && refused.screen.contains("What was written since this copy was made is lost")
        )
        let accepted = try sandbox.lockbox(
            "accept-restored",
            typing: [.init("Type yes: ", "yes\n"), .init("Passcode of the store: ", "correct horse\n")]
        )
        #expect(accepted.status == 0, "\(accepted.screen)")
        #expect(try sandbox.lockbox("get", "k", "--passcode-file", passcode).output == "hunter2")
    }

    /// Whoever has the device key only may have put it back.
    @Test func aCopyWithoutAPasscodeIsNoneWithOne() throws {
        try #require(try sandbox.lockbox("passcode", "remove", "--passcode-file", passcode).status == 0)
        try restore { try sandbox.setPasscode() }
        let refused = try accept("--yes", "--passcode-file", passcode)
        #expect(refused.status == 2 && refused.error.contains("from before the store had a passcode"))
        #expect(try sandbox.lockbox("list").status == 3)
        #expect(try accept("--yes").status == 0)
        #expect(try sandbox.lockbox("get", "k").output == "hunter2")
    }

    @Test func aStoreThatIsUpToDateStaysAsItIs() throws {
        let before = try Data(contentsOf: URL(filePath: "\(sandbox.store)/keybag"))
        let outcome = try accept("--yes", "--passcode-file", passcode)
        #expect(outcome.status == 0 && outcome.output == "" && outcome.error.contains("Nothing was changed"))
        #expect(try Data(contentsOf: URL(filePath: "\(sandbox.store)/keybag")) == before)
    }
}
