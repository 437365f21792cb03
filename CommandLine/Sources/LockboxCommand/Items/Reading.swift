import ArgumentParser
import Lockbox

struct GetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print a value, and nothing else.",
        discussion: """
            Text is printed as text, data as bytes, everything else as JSON. On a terminal, a newline is \
            added.

            Example: lockbox get token | gh auth login --with-token
            """
    )

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Flag(help: "Print JSON: text as a JSON string, data as a base64 string.")
    var json = false

    @Flag(help: "Also if the item has expired.")
    var expired = false

    @OptionGroup var secret: UnlockOptions
    @OptionGroup var options: StoreOptions

    func run() throws {
        try Self.run(key, asJSON: json, at: expired ? nil : Date(), options.choice(unlockedBy: secret.secret))
    }

    static func run(_ key: String, asJSON: Bool = false, at now: Date? = Date(), _ choice: StoreChoice) throws
    {
        let store = try choice.store()
        let item = try ItemKey(prefix: store.prefix, key: key)
        let value = try store.unlocking { try store.backend.value(for: item, now: now) }
        guard let value else { throw store.missing(key) }
        try Output.bytes(asJSON ? value.json(key) : value.plain(key))
        if Terminal.isThere(STDOUT_FILENO) { try Output.line("") }
    }
}

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

/// An item in `--json` output. Documented: fields may be added, but never removed.
struct ItemDescription: Encodable {
    let key: String
    let accessibility: String
    let created: Date
    let modified: Date
    let expires: Date?
    let format: String
    let size: Int
    let label: String?
    let comment: String?
    let attributes: [String: String]?

    private enum CodingKeys: String, CodingKey {
        case key, created, modified, expires, format, size, label, comment, attributes
        case accessibility = "class"
    }

    init(_ key: String, _ attributes: ItemAttributes) {
        self.key = key
        accessibility = "\(attributes.accessibility)"
        created = attributes.created
        modified = attributes.modified
        expires = attributes.expires
        format = "\(attributes.format)"
        size = attributes.size
        label = attributes.label
        comment = attributes.comment
        self.attributes = attributes.searchable.isEmpty ? nil : attributes.searchable
    }
}

extension Date {
    /// The date in the local time zone.
    var local: String {
        // strftime does not support years that do not fit into an Int32.
        var time = Int(max(-1e15, min(1e15, timeIntervalSince1970.rounded(.down))))
        var parts = tm()
        localtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let length = strftime(&text, text.count, "%Y-%m-%d %H:%M", &parts)
        return String(decoding: text[..<length].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
