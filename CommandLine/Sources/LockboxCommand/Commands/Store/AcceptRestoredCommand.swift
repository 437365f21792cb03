import ArgumentParser
import Lockbox

struct AcceptRestoredCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept-restored",
        abstract: "Accept a store that was restored from an older copy.",
        discussion: """
            If the keys of a store are older than those that this user's programs have seen, every command \
            fails with status 3, because somebody may have put back an old copy. Run this only if you know who \
            has. It asks for the passcode, creates new keys and reseals every item.

            Example: lockbox accept-restored
            """
    )

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup var secret: UnlockOptions

    @OptionGroup var options: StoreOptions

    func run() throws {
        // Before it is accepted, nothing else can be asked of the store.
        let store = try options.store(unlockedBy: secret.secret, checksPasscode: false)
        guard try isRolledBack(store) else {
            return store.say("The store is not older than what was seen before. Nothing was changed.")
        }
        guard try yes || confirms(store) else { throw Failure(.conflict, "Nothing was changed.") }
        try store.makingKeys("accept-restored") { try accept(store, $0) }
        try store.report("The restored store is accepted. Its keys are new.")
    }

    private func isRolledBack(_ store: Store) throws -> Bool {
        do { _ = try store.backend.slots } catch LockboxError.rolledBack { return true }
        return false
    }

    private func confirms(_ store: Store) throws -> Bool {
        guard Terminal.canAsk else {
            throw Failure(
                .conflict,
                "There is no terminal to ask at: use --yes if you know who has restored the store. Nothing was changed."
            )
        }
        return try Terminal.confirmsInFull(
            "What was written since this copy was made is lost. Accept the old copy of "
                + "\(store.location.onOneLine)?",
            otherwise: "There is no terminal to ask at. Nothing was changed."
        )
    }

    /// Asks for the passcode only if something has to unlock the store.
    private func accept(_ store: Store, _ progress: (StoreProgress) -> Void) throws -> RotationReport {
        do {
            let report = try store.unlockWithGiven {
                try store.backend.acceptRestored($0, progress: progress)
            }
            if let report { return report }
        } catch LockboxError.passcodeNotSet {
            throw Failure(
                .locked,
                "The copy is from before the store had a passcode. Nothing was changed. To accept it, leave the passcode out."
            )
        }
        do { return try store.backend.acceptRestored(progress: progress) } catch LockboxError
            .interactionNotAllowed
        {
            return try store.threeTimes(.passcode, SecretInput.missing) {
                try store.backend.acceptRestored($0, progress: progress)
            }
        }
    }
}
