import ArgumentParser
import Lockbox

struct ListCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Print the keys, one per line.",
        discussion: """
            Control characters in a key are escaped; --json prints the exact key. Needs no passcode. Items \
            that cannot be read are named on standard error, and the exit status is then 3.

            Example: lockbox list --long
            """
    )

    @Flag(help: "Print class, dates, expiry, size and label too.")
    var long = false

    @Flag(help: "Print a JSON array with the attributes of each item.")
    var json = false

    @Flag(
        help:
            "Only items that have expired, and are not listed otherwise. `lockbox change --expires` revives them."
    )
    var expired = false

    @Option(
        name: .customLong("attribute"),
        help: "Only items with this searchable attribute, as NAME=TEXT. Can be repeated: all must match."
    )
    var attributes: [AttributePair] = []

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        var list = try store.lockbox.list(matching: attributes.dictionary, includingExpired: expired)
        if !store.isMade { throw store.noStore }
        let now = Date()
        if expired { list.items = list.items.filter { $0.value.isExpired(at: now) } }
        if list.items.isEmpty, list.unreadable.isEmpty, attributes.isEmpty, !expired {
            store.say(store.empty.message)
        }
        try print(list.items.sorted { $0.key < $1.key })
        try Unreadable(list.unreadable).fail(in: store)
    }

    private func print(_ items: [(key: String, value: ItemAttributes)]) throws {
        if json {
            try Output.json(items.map { ItemDescription($0.key, $0.value) })
        } else if long {
            var table = Table(header: ["KEY", "CLASS", "CREATED", "MODIFIED", "EXPIRES", "SIZE", "LABEL"])
            table.rows = items.map { key, item in
                [
                    key, "\(item.accessibility)", item.created.local, item.modified.local,
                    item.expires?.local ?? "-", "\(item.size)", item.label ?? "-",
                ]
            }
            try table.print()
        } else {
            for (key, _) in items { try Output.line(key.onOneLine) }
        }
    }
}
