import ArgumentParser
import Lockbox

struct GitCredentialCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "git-credential",
        abstract: "Store git's passwords: a credential helper.",
        discussion: """
            Uses git's protocol on standard input and output. The items have the prefix git.

            Example: git config --global credential.helper '!lockbox git-credential'
            """
    )

    @Argument(help: "get, store or erase. Other operations are ignored, as git requires.")
    var operation: String

    @OptionGroup var options: StoreOptions

    func validate() throws {
        if options.passcodeFd == STDIN_FILENO {
            throw ValidationError(
                "Standard input carries git's request; use another descriptor for --passcode-fd."
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

    /// Prints the newest matching credential, if there is one. If there is none, it may be one of those that
    /// cannot be read.
    private static func get(_ context: GitContext, _ store: Store) throws {
        var unreadable = Unreadable()
        for key in try matching(context, store, at: Date(), &unreadable) {
            let value = try store.unlocking { try store.backend.value(for: key, now: Date()) }
            guard let value, value.format == .data else { continue }
            return try Output.bytes(value.data)
        }
        try unreadable.fail()
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
        let itemKey = try ItemKey(prefix: store.prefix, key: key)
        let changes = ItemChanges(
            value: try ArchivedValue(data: data, format: .data),
            expires: expiry.map(Expiry.at) ?? .never,
            modified: now
        )
        try store.unlocking {
            let old = try store.backend.value(for: itemKey, now: now)
            // git sends this every time it has used the credential.
            if old == changes.value { return }
            // An empty password can be right for a new credential, but a typing error must not replace an
            // existing one.
            if password.isEmpty, let old, self.password(old) != password {
                return store.say("An empty password does not replace the stored one.")
            }
            try store.backend.write(changes, to: itemKey, policy: .replace)
        }
    }

    /// Removes the matching credentials. If there is a password, removes only those that have it, because a
    /// newer one may have been stored since.
    private static func erase(_ request: GitRequest, _ context: GitContext, _ store: Store) throws {
        var unreadable = Unreadable()
        for key in try matching(context, store, at: nil, &unreadable) {
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
        try unreadable.fail()
    }

    private static func matching(
        _ context: GitContext,
        _ store: Store,
        at now: Date?,
        _ unreadable: inout Unreadable
    ) throws -> [ItemKey] {
        var found: [(key: ItemKey, value: ItemAttributes)] = []
        try store.backend.forEachItem(prefix: store.prefix, now: now, unreadable: { unreadable.add($0) }) {
            if GitContext(key: $0.key).map(context.matches) ?? false { found.append(($0, $1)) }
        }
        return
            found
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

    /// The last second of the year 9999, as a limit for expiry dates.
    private static let endOfTime: Int64 = 253_402_300_799

    private static func integer(_ value: Data) -> Int64? { Int64(String(decoding: value, as: UTF8.self)) }
}
