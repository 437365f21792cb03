import ArgumentParser
import Lockbox

struct QuarantineCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine",
        abstract: "Set aside items that cannot be read (stores in files only).",
        discussion: """
            The items no longer count as items of the store, so that everything else can go on without them. \
            Their bytes are kept in the store's quarantine folder.

            Example: lockbox quarantine qbk3c7ma-o5v…/q3h…
            """
    )

    @Argument(help: "The items, as list, verify or rotate named them.")
    var records: [String]

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        for record in records {
            try store.report("set aside: \(store.backend.quarantine(record: store.record(record)).onOneLine)")
        }
    }
}
