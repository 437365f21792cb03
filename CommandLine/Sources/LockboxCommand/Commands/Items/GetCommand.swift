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
