import ArgumentParser
import Lockbox

struct GitCredentialCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "git-credential",
        abstract: "Keep git's passwords: a credential helper.",
        discussion: """
            Speaks git's protocol on standard input and output; the items are under the prefix git.

            Example: git config --global credential.helper '!lockbox git-credential'
            """
    )

    @Argument(help: "get, store or erase. Anything else does nothing, as git asks of helpers.")
    var operation: String

    @OptionGroup var options: StoreOptions

    func validate() throws {
        if options.passcodeFd == STDIN_FILENO {
            throw ValidationError(
                "Standard input has git's request, so --passcode-fd must be another descriptor."
            )
        }
    }

    func run() throws { try Self.run(operation, options.choice) }

    static func run(_ operation: String, _ choice: StoreChoice) throws {
        guard ["get", "store", "erase"].contains(operation) else { return }
        let request = try GitRequest(Input.all(limit: GitRequest.maximumLength))
        guard let context = GitContext(request) else { return }
        let store = try choice.store(prefix: "git", asks: mayAsk)
        switch operation {
        case "get": try get(context, store)
        case "store": try keep(request, context, store)
        default: try erase(request, context, store)
        }
    }

    private static var mayAsk: Bool {
        !["0", "false", "no", "off"].contains(Environment["GIT_TERMINAL_PROMPT"]?.lowercased())
    }

    /// Prints the newest that matches, if any does.
    private static func get(_ context: GitContext, _ store: Store) throws {
        for key in try matching(context, store, at: Date()) {
            let value = try store.unlocking { try store.backend.value(for: key, now: Date()) }
            guard let value, value.format == .data else { continue }
            return try Output.bytes(value.data)
        }
    }

    private static func keep(_ request: GitRequest, _ context: GitContext, _ store: Store) throws {
        guard let key = context.key, let username = request["username"], let password = request["password"],
            !isTrue(request["ephemeral"])
        else { return }
        var lines = [("username", username), ("password", password)]
        let now = Date()
        var expiry: Date?
        if let seconds = request["password_expiry_utc"].flatMap(integer) {
            let date = Date(timeIntervalSince1970: TimeInterval(min(seconds, endOfTime)))
            guard date > now else { return }
            expiry = date
            lines.append(("password_expiry_utc", Data("\(seconds)".utf8)))
        }
        if let token = request["oauth_refresh_token"] { lines.append(("oauth_refresh_token", token)) }
        let data = lines.reduce(into: Data()) { $0 += Data("\($1.0)=".utf8) + $1.1 + Data("\n".utf8) }
        let item = try StoredItem(
            key: ItemKey(prefix: store.prefix, key: key),
            value: ArchivedValue(data: data, format: .data),
            modified: now,
            expires: expiry
        )
        try store.unlocking {
            let old = try store.backend.value(for: item.key, now: now)
            // git says so each time it has used it.
            if old == item.value { return }
            // It may be right where there is none yet, but no slip of the hand costs the one that is there.
            if password.isEmpty, let old, self.password(old) != password {
                return store.say("An empty password does not replace the one that is stored.")
            }
            try store.backend.write(item, policy: .replace)
        }
    }

    /// Removes what matches; with a password, only what has that one: a newer one may have been stored since.
    private static func erase(_ request: GitRequest, _ context: GitContext, _ store: Store) throws {
        for key in try matching(context, store, at: nil) {
            guard let password = request["password"] else {
                try store.backend.remove(key)
                continue
            }
            try store.unlocking {
                guard let value = try store.backend.value(for: key, now: nil),
                    self.password(value) == password
                else {
                    return
                }
                try store.backend.update(key, now: nil) { $0?.value == value ? nil : $0 }
            }
        }
    }

    private static func matching(_ context: GitContext, _ store: Store, at now: Date?) throws -> [ItemKey] {
        try store.backend.attributes(prefix: store.prefix, now: now)
            .filter { GitContext(key: $0.key.key).map(context.matches) ?? false }
            .sorted { ($1.value.modified, $0.key.key) < ($0.value.modified, $1.key.key) }
            .map(\.key)
    }

    private static func password(_ value: ArchivedValue) -> Data? {
        value.format == .data ? (try? GitRequest(value.data))?["password"] : nil
    }

    private static func isTrue(_ value: Data?) -> Bool {
        value.map { ["1", "true", "yes", "on"].contains(String(decoding: $0, as: UTF8.self).lowercased()) }
            ?? false
    }

    /// The last second of the year 9999, after which dates are no use to anybody.
    private static let endOfTime: Int64 = 253_402_300_799

    private static func integer(_ value: Data) -> Int64? { Int64(String(decoding: value, as: UTF8.self)) }
}
