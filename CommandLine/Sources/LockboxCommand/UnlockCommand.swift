import ArgumentParser
import Lockbox

struct UnlockCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Open the store for every program of this user.",
        discussion: """
            The keys are with the Linux kernel until `lockbox lock`, the timeout or a restart. Where the kernel refuses, as \
            in many containers, it says so with status 2: give --passcode-file to each command there.

            Example: lockbox unlock --timeout 8h
            """
    )

    @Option(help: "Lock again after a span such as 30m or 8h.")
    var timeout: String?

    @OptionGroup var options: StoreOptions

    func run() throws {
        let timeout = try timeout.map { text in
            guard let seconds = Lifetime.seconds(text) else {
                throw Failure(.usage, "--timeout takes a span such as 30m or 8h.")
            }
            return Duration.seconds(seconds)
        }
        let store = try options.store()
        guard try store.backend.lockState != .noPasscode else {
            return store.say("The store has no passcode: it is open.")
        }
        let scope = try store.unlock { try store.backend.unlock($0, scope: .user, timeout: timeout) }
        guard scope == .user else {
            throw Failure(
                .locked,
                "The passcode is right, but the kernel keeps no keys here, so that no other program finds the store open. "
                    + "Give --passcode-file, or set LOCKBOX_PASSCODE_FILE, for each command."
            )
        }
    }
}
