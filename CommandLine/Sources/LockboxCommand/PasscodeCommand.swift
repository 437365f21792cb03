import ArgumentParser
import Lockbox

struct PasscodeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "passcode",
        abstract: "Set, change or remove the store's passcode.",
        discussion: """
            Only the keybag is rewritten. Copies of the old keybag still open as before.

            Example: lockbox passcode set
            """,
        subcommands: [Set.self, Change.self, Remove.self]
    )

    struct NewPasscode: ParsableArguments {
        @Option(help: "Read the new passcode from this file instead of asking.", completion: .file())
        var newPasscodeFile: String?

        @Option(help: "The cost of each unlock and each guess.")
        var strength = Strength.moderate

        func passcode() throws -> PasscodeSource {
            try SecretInput.new("passcode", file: newPasscodeFile, option: "--new-passcode-file")
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set the passcode of a store that has none.",
            discussion: "Example: lockbox passcode set"
        )

        @OptionGroup var new: NewPasscode
        @OptionGroup var options: StoreOptions

        func run() throws {
            let store = try options.store()
            // Checked before the user is asked for a passcode.
            guard try store.backend.lockState == .noPasscode else { throw LockboxError.passcodeAlreadySet }
            try store.backend.setPasscode(new.passcode(), strength: new.strength.strength)
            try store.report(
                "The passcode is set. `lockbox unlock` unlocks the store for all programs of this user."
            )
        }
    }

    struct Change: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Change the passcode.",
            discussion: """
                If the store is locked, the old passcode is needed.

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
            _ = try store.unlocking {
                try store.backend.changePasscode(to: passcode, strength: new.strength.strength)
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove the passcode: the store is always open from then on.",
            discussion: """
                Items of the class whenPasscodeSetThisDeviceOnly are destroyed. If there are any, it asks \
                for confirmation first at a terminal.

                Example: lockbox passcode remove
                """
        )

        @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
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
            _ = try store.unlocking { try store.backend.removePasscode() }
        }

        /// The number of items that would be destroyed with the passcode.
        private static func bound(_ backend: EncryptedFileBackend) throws -> Int {
            var (count, unreadable) = (0, Unreadable())
            for prefix in try backend.prefixes(unreadable: { unreadable.add($0) }) {
                try backend.forEachItem(prefix: prefix, now: nil, unreadable: { unreadable.add($0) }) {
                    if $1.accessibility == .whenPasscodeSetThisDeviceOnly { count += 1 }
                }
            }
            unreadable.note()
            return count
        }
    }
}
