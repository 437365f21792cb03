import ArgumentParser
import Lockbox

struct ClearCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Remove every item of the prefix, and of no other.",
        discussion: """
            At a terminal it asks first.

            Example: lockbox clear --prefix com.example.app
            """
    )

    @Flag(name: .shortAndLong, help: "Do not ask.")
    var yes = false

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        let question = "Remove every item under the prefix \(store.prefix.onOneLine)?"
        guard try yes || Terminal.confirms(question) else { throw Failure(.conflict, "Nothing was removed.") }
        try store.lockbox.removeAllObjects()
    }
}
