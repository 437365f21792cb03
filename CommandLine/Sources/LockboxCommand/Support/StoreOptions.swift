import ArgumentParser
import Lockbox

/// The options that all commands share.
struct StoreOptions: ParsableArguments {
    @Option(
        help: "The key prefix. (default: $LOCKBOX_KEY_PREFIX, otherwise lockbox)",
        completion: .custom(Keys.prefixes)
    )
    var prefix: String?

    @Option(
        help: "The store's folder. (default: $LOCKBOX_DIRECTORY, otherwise this user's store)",
        completion: .directory
    )
    var directory: String?

    @Option(help: "Read the passcode from this file, if it is needed.", completion: .file())
    var passcodeFile: String?

    @Option(help: "Read the passcode from this open file descriptor, if it is needed.")
    var passcodeFd: Int32?

    @Flag(name: .shortAndLong, help: "Print only the requested output, and errors.")
    var quiet = false

    @Flag(name: .shortAndLong, help: "Print on standard error which store is used, and what is done.")
    var verbose = false

    func validate() throws {
        if passcodeFile != nil, passcodeFd != nil {
            throw ValidationError("Give --passcode-file or --passcode-fd, not both.")
        }
    }

    var choice: StoreChoice {
        StoreChoice(
            prefix: prefix,
            directory: directory,
            passcodeFile: passcodeFile,
            passcodeFd: passcodeFd,
            quiet: quiet,
            verbose: verbose
        )
    }

    func store() throws -> Store { try choice.store() }
}
