import ArgumentParser
import Lockbox

struct LockCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "lock",
        abstract: "Take back what `lockbox unlock` has opened.",
        discussion: """
            Items of the afterFirstUnlock classes stay readable until the machine restarts, but for --all.

            Example: lockbox lock
            """
    )

    @Flag(help: "The afterFirstUnlock classes, too.")
    var all = false

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        guard try store.backend.lockState != .noPasscode else { throw LockboxError.passcodeNotSet }
        try store.backend.lock(includingAfterFirstUnlock: all)
    }
}
