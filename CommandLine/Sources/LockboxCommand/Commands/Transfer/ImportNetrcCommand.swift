import ArgumentParser
import Lockbox
import LockboxImport

struct ImportNetrcCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-netrc",
        abstract: "Store the logins of a netrc file.",
        discussion: """
            Each login is stored as JSON with machine, login, password, account, port and protocol, under a key such as \
            alice@example.com. An existing item with another value is kept, and listed.

            Example: lockbox import-netrc ~/.netrc --prefix netrc
            """
    )

    @OptionGroup var file: ImportedFile

    @OptionGroup var options: StoreOptions

    func run() throws {
        try file.run(options, .netrc(at: file.file)) {
            .value($0, as: [String: String].self, accessibility: $1)
        }
    }
}
