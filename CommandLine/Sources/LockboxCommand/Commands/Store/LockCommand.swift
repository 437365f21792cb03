import ArgumentParser
import Lockbox

struct LockCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Lock the store for every program of this user.",
        discussion: """
            Items of the afterFirstUnlock classes stay readable until the machine restarts, unless --all is \
            given.

            Example: lockbox lock
            """
    )

    @Flag(help: "Lock the afterFirstUnlock classes too.")
    var all = false

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.choice.store(checksPasscode: false)
        // A store that cannot be opened may still be unlocked for other programs.
        if (try? store.backend.lockState) == .unprotected { throw LockboxError.passcodeNotSet }
        try store.backend.lock(includingAfterFirstUnlock: all)
    }
}
