import ArgumentParser
import Lockbox

struct InfoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "info",
        abstract: "Print an item's attributes.",
        discussion: """
            Needs no passcode.

            Example: lockbox info token
            """
    )

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Flag(help: "Print a JSON object.")
    var json = false

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        let place = try ItemKey(prefix: store.prefix, key: key)
        guard let item = try store.backend.attributes(for: place, now: nil) else { throw store.missing(key) }
        if json { return try Output.json(ItemDescription(key, item)) }
        let attributes = item.searchable.sorted { $0.key < $1.key }.map { ("attribute", "\($0)=\($1)") }
        try Output.fields(
            [
                ("key", key),
                ("class", "\(item.accessibility)"),
                ("created", item.created.local),
                ("modified", item.modified.local),
                (
                    "expires",
                    (item.expires?.local ?? "never") + (item.isExpired(at: Date()) ? " (expired)" : "")
                ),
                ("format", "\(item.format)"),
                ("size", "\(item.size) bytes"),
                ("label", item.label ?? "-"),
                ("comment", item.comment ?? "-"),
            ] + attributes
        )
    }
}
