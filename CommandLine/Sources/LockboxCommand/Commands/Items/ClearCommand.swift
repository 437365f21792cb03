import ArgumentParser
import Lockbox

struct ClearCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Remove all items with the prefix.",
        discussion: """
            Asks for confirmation first if it is run at a terminal.

            Example: lockbox clear --prefix com.example.app
            """
    )

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        let question = "Remove all items with the prefix \(store.prefix.onOneLine)?"
        guard try yes || Terminal.confirms(question) else { throw Failure(.conflict, "Nothing was removed.") }
        try store.lockbox.removeAllObjects()
    }
}
