import ArgumentParser
import Lockbox

struct ClearCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clear",
        abstract: "Remove all items with the prefix.",
        discussion: """
            Asks for confirmation first. Without a terminal, --yes is needed.

            Example: lockbox clear --prefix com.example.app
            """
    )

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        let count = try Self.count(store)
        let items = "\(count) \(count == 1 ? "item" : "items") with the prefix \(store.prefix.onOneLine)"
        let otherwise = "There is no terminal to ask at: use --yes to remove \(items). Nothing was removed."
        guard try yes || Terminal.confirms("Remove \(items)?", otherwise: otherwise) else {
            throw Failure(.conflict, "Nothing was removed.")
        }
        try store.lockbox.removeAllObjects()
        try store.report("items removed: \(count)")
    }

    /// Expired items and those that cannot be read go too.
    private static func count(_ store: Store) throws -> Int {
        var (count, unreadable) = (0, 0)
        try store.backend.forEachItem(
            prefix: store.prefix,
            now: nil,
            unreadable: { _ in unreadable += 1 }
        ) { _, _ in count += 1 }
        return count + unreadable
    }
}
