import ArgumentParser
import Lockbox

struct GetCommand: Command {
    static let help: CommandHelp = """
        get, show: Print a value, and nothing else.

        Text is printed as text, data as bytes, everything else as JSON. A terminal gets a newline too, and no bytes or control \
        characters.

        Example: lockbox get token | gh auth login --with-token
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Flag(help: "Print JSON: text as a JSON string, data as a base64 string.")
    var json = false

    @Option(help: .init("Print this member of the JSON value: user.name, keys.0.", valueName: "path"))
    var field: String?

    @Flag(help: "Also if the item has expired.")
    var expired = false

    @OptionGroup var output: ClipOptions

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let choice = try options.choice(unlockedBy: secret.secret)
        try Self.print(key, choice, at: expired ? nil : Date(), to: output) { value in
            let part = try field.map { try value.field($0, key) } ?? value
            return try json ? part.json(key) : part.plain(key)
        }
    }

    typealias Form = (ArchivedValue) throws -> Data

    static func print(
        _ key: String,
        _ choice: StoreChoice,
        at now: Date? = Date(),
        to output: ClipOptions? = nil,
        as form: Form
    ) throws {
        let store = try choice.store()
        let item = try ItemKey(prefix: store.prefix, key: key)
        let value = try store.unlocking(for: key) { try store.backend.value(for: item, now: now) }
        guard let value else { throw store.missing(key) }
        if let output { return try output.print(form(value), store) }
        try Output.value(form(value))
    }
}

struct ListCommand: Command {
    static let help: CommandHelp = """
        list, ls: Print the keys, one per line.

        Control characters in a key are escaped; --json prints the exact key. Needs no passcode, but checks one \
        that is given. Items that cannot be read are named on standard error, and the exit status is then 3.

        Example: lockbox list --long
        """

    @Argument(help: "Only keys that match this pattern of the shell, such as 'web/*'.")
    var pattern: String?

    @Flag(
        name: .shortAndLong,
        help: "Print class, dates, expiry, label, and size: a text's with the quotes of JSON."
    )
    var long = false

    @Flag(help: "Print a JSON array with the attributes of each item.")
    var json = false

    @Flag(help: "Print the keys as a tree, by their slashes.")
    var tree = false

    @Flag(help: "The items of all prefixes, each after its prefix. So do several --prefix.")
    var all = false

    @Option(help: .init("Only items that expire within this time, such as 7d.", valueName: "time"))
    var expiring: String?

    @Flag(help: "Only items that have expired. `lockbox change --expires` revives them.")
    var expired = false

    @Option(
        name: .customLong("attribute"),
        help: .init(
            "Only items with this searchable attribute. Can be repeated: all must match.",
            valueName: "NAME=TEXT"
        )
    )
    var attributes: [AttributePair] = []

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if all, !options.prefixes.isEmpty { throw ValidationError("Give --all or --prefix, not both.") }
        if [long, json, tree].count(where: \.self) > 1 {
            throw ValidationError("Give only one of --long, --json and --tree.")
        }
        if let expiring, Lifetime.seconds(expiring) == nil || expired {
            throw ValidationError("--expiring takes a time such as 12h or 7d, and is not for --expired.")
        }
    }

    func run() throws {
        let store = try options.openStore()
        var unreadable = Unreadable()
        var prefixes = options.prefixes.isEmpty ? [store.prefix] : options.prefixes
        if all { prefixes = try store.backend.prefixes { unreadable.add($0) }.sorted() }
        var items: [(key: ItemKey, value: ItemAttributes)] = []
        for prefix in prefixes {
            let found = try Lockbox(keyPrefix: prefix, backend: store.backend)
                .list(matching: attributes.dictionary, includingExpired: expired)
            found.unreadable.forEach { unreadable.add($0) }
            items += try found.items.map { (try ItemKey(prefix: prefix, key: $0.key), $0.value) }
        }
        let isAny = items.isEmpty && unreadable.count == 0 && attributes.isEmpty && !expired
        if isAny { store.say(store.empty.message) }
        let end = (expired ? 0 : expiring.flatMap(Lifetime.seconds)).map {
            Date(timeIntervalSinceNow: TimeInterval($0))
        }
        let keys = items.map(\.key.key)
        items = items.filter { key, item in
            (pattern.map { fnmatch($0, key.key, 0) == 0 } ?? true)
                && (end.map { item.isExpired(at: $0) } ?? true)
        }
        if !isAny, items.isEmpty, let pattern {
            let advice =
                keys.contains { $0.hasPrefix(pattern) }
                ? "\("\(pattern)*".quotedForShell.onOneLine) finds those that begin with it"
                : "'*TEXT*' finds those that contain TEXT"
            store.say("No key matches \(pattern.onOneLine). A pattern is for the whole key: \(advice).")
        }
        items.sort { ($0.key.prefix, $0.key.key) < ($1.key.prefix, $1.key.key) }
        try print(items, isAll: all || prefixes.count > 1)
        try unreadable.fail(in: store)
    }

    private func print(_ items: [(key: ItemKey, value: ItemAttributes)], isAll: Bool) throws {
        if json {
            try Output.json(
                items.map { ItemDescription($0.key.key, $0.value, prefix: isAll ? $0.key.prefix : nil) }
            )
        } else if long {
            let header = ["PREFIX", "KEY", "CLASS", "CREATED", "MODIFIED", "EXPIRES", "SIZE", "LABEL"]
            var table = Table(header: isAll ? header : Array(header.dropFirst()))
            table.rows = items.map { key, item in
                let dates = [item.created.local, item.modified.local, item.expires?.local ?? "-"]
                let row = ["\(item.accessibility)"] + dates + ["\(item.size)", item.label ?? "-"]
                return (isAll ? [key.prefix] : []) + [key.key] + row
            }
            try table.print()
        } else if tree {
            let parts = { (key: ItemKey) in
                [key.prefix[...]] + key.key.split(separator: "/", omittingEmptySubsequences: false)
            }
            try Self.print(tree: items.map { parts($0.key) })
        } else {
            for (key, _) in items { try Output.line(isAll ? key.text : key.key.onOneLine) }
        }
    }
}

extension ListCommand {
    /// - Parameter indent: That of the lines below a branch. Nil for roots.
    private static func print(tree: [[Substring]], below indent: String? = nil) throws {
        let branches = Dictionary(grouping: tree) { $0[0] }.sorted { $0.key < $1.key }
        for (number, (name, paths)) in branches.enumerated() {
            let isLast = number == branches.count - 1
            try Output.line(indent.map { "\($0)\(isLast ? "└── " : "├── ")\(name)" } ?? "\(name)")
            let rest = paths.map { Array($0.dropFirst()) }.filter { !$0.isEmpty }
            try print(tree: rest, below: indent.map { "\($0)\(isLast ? "    " : "│   ")" } ?? "")
        }
    }
}

struct InfoCommand: Command {
    static let help: CommandHelp = """
        info: Print an item's attributes.

        Needs no passcode, but checks one that is given.

        Example: lockbox info token
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Flag(help: "Print a JSON object.")
    var json = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.openStore()
        let place = try ItemKey(prefix: store.prefix, key: key)
        guard let item = try store.backend.attributes(for: place, now: nil) else { throw store.missing(key) }
        if json { return try Output.json(ItemDescription(key, item)) }
        let expired = item.isExpired(at: Date()) ? " (expired)" : ""
        // A locked value may be a text, which cannot be told.
        let value = try? store.backend.value(for: place, now: nil)
        let text = value.flatMap { $0.isText ? try? $0.plain(key) : nil }
        let size = text?.count ?? item.size
        let attributes = item.searchable.sorted { $0.key < $1.key }.map { ("attribute", "\($0)=\($1)") }
        try Output.fields(
            [
                ("key", key),
                ("class", "\(item.accessibility)"),
                ("created", item.created.local),
                ("modified", item.modified.local),
                ("expires", (item.expires?.local ?? "never") + expired),
                ("format", text == nil ? "\(item.format)" : "text"),
                (
                    "size",
                    "\(size.bytes)\(text == nil && item.format == .json ? " of JSON" : "")"
                ),
                ("label", item.label ?? "-"),
                ("comment", item.comment ?? "-"),
            ] + attributes
        )
    }
}

/// An item in `--json` output. Documented: fields may be added, but never removed.
struct ItemDescription: Encodable {
    let prefix: String?
    let key: String
    let `class`: String
    let created: Date
    let modified: Date
    let expires: Date?
    let format: String
    let size: Int
    let label: String?
    let comment: String?
    let attributes: [String: String]?

    init(_ key: String, _ attributes: ItemAttributes, prefix: String? = nil) {
        self.prefix = prefix
        self.key = key
        self.class = "\(attributes.accessibility)"
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

extension Int {
    /// The number of bytes.
    var bytes: String { "\(self) \(self == 1 ? "byte" : "bytes")" }
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
