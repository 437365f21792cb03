import ArgumentParser
import Lockbox

struct UnlockCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unlock",
        abstract: "Unlock the store for every program of this user.",
        discussion: """
            The Linux kernel keeps the keys until `lockbox lock`, the timeout or a restart. If the kernel \
            refuses, as in many containers, the exit status is 2: use --passcode-file with each command \
            instead.

            Example: lockbox unlock --timeout 8h
            """
    )

    @Option(help: "Lock again after a time span such as 30m or 8h.")
    var timeout: String?

    @OptionGroup var secret: UnlockOptions

    @OptionGroup var options: StoreOptions

    func run() throws {
        let timeout = try timeout.map { text in
            guard let seconds = Lifetime.seconds(text) else {
                throw Failure(.usage, "--timeout takes a time span such as 30m or 8h.")
            }
            return Duration.seconds(seconds)
        }
        let store = try options.store(unlockedBy: secret.secret)
        // Whoever gives a secret expects a store that needs one.
        if secret.secret == nil, try store.backend.lockState == .unprotected {
            return store.say("The store has no passcode: it is open.")
        }
        if secret.secret == nil, timeout == nil, SecretInput.passcode(store.choice) == nil, !Terminal.canAsk,
            try store.backend.lockState == .unlocked
        {
            return store.say("The store is unlocked already.")
        }
        let scope = try store.unlock { try store.backend.unlock(with: $0, scope: .user, timeout: timeout) }
        guard scope == .user else {
            throw Failure(
                .locked,
                "The \(secret.secret?.name ?? "passcode") is correct, but the kernel cannot keep the keys here, so other "
                    + "programs stay locked out. Use --passcode-file, or set LOCKBOX_PASSCODE_FILE, for each command."
            )
        }
        if try store.backend.lockState != .unlocked {
            store.say("This key unlocks only the afterFirstUnlock classes.")
        }
    }
}
