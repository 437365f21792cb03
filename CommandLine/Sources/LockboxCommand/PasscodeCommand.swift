import ArgumentParser
import Lockbox

struct PasscodeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passcode",
        abstract: "Give the store a passcode, change it, or take it away.",
        discussion: """
            Only the keybag is rewritten. Copies of the old one still open as they did.

            Example: lockbox passcode set
            """,
        subcommands: [Set.self, Change.self, Remove.self]
    )

    struct NewPasscode: ParsableArguments {
        @Option(help: "Read the new passcode from this file, instead of asking.", completion: .file())
        var newPasscodeFile: String?

        @Option(help: "What each unlock, and each guess, costs.")
        var strength = Strength.moderate

        func passcode() throws -> PasscodeSource {
            try SecretInput.new("passcode", file: newPasscodeFile, option: "--new-passcode-file")
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give a passcode to a store that has none.",
            discussion: "Example: lockbox passcode set"
        )

        @OptionGroup var new: NewPasscode
        @OptionGroup var options: StoreOptions

        func run() throws {
            let store = try options.store()
            // Known before anything is typed.
            guard try store.backend.lockState == .noPasscode else { throw LockboxError.passcodeAlreadySet }
            try store.backend.setPasscode(new.passcode(), strength: new.strength.strength)
            try store.report(
                "The store has a passcode now. `lockbox unlock` opens it for all programs of this user."
            )
        }
    }

    struct Change: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replace the passcode.",
            discussion: """
                The old one is needed if the store is locked.

                Example: lockbox passcode change --passcode-file old --new-passcode-file new
                """
        )

        @OptionGroup var new: NewPasscode
        @OptionGroup var options: StoreOptions

        func run() throws {
            let store = try options.store()
            if try store.backend.lockState == .noPasscode { throw LockboxError.passcodeNotSet }
            try store.openIfLocked()
            let passcode = try new.passcode()
            try store.unlocking {
                try store.backend.changePasscode(to: passcode, strength: new.strength.strength)
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take the passcode away: the store is open from then on.",
            discussion: """
                Items of the class whenPasscodeSetThisDeviceOnly are destroyed. If there are any, it asks first at a terminal.

                Example: lockbox passcode remove
                """
        )

        @Flag(name: .shortAndLong, help: "Do not ask.")
        var yes = false

        @OptionGroup var options: StoreOptions

        func run() throws {
            let store = try options.store()
            if try store.backend.lockState == .noPasscode { throw LockboxError.passcodeNotSet }
            try store.openIfLocked()
            let count = try Self.bound(store.backend)
            if count > 0, !yes {
                let question = "Items that exist only with a passcode: \(count). Destroy them?"
                guard try Terminal.confirms(question) else {
                    throw Failure(.conflict, "Nothing was changed.")
                }
            }
            try store.unlocking { try store.backend.removePasscode() }
        }

        /// How many items go with the passcode.
        private static func bound(_ backend: EncryptedFileBackend) throws -> Int {
            try backend.prefixes().reduce(0) { count, prefix in
                let items = try backend.attributes(prefix: prefix, now: nil).values
                return count + items.count { $0.accessibility == .whenPasscodeSetThisDeviceOnly }
            }
        }
    }
}
