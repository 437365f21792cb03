import ArgumentParser
import Lockbox

struct GitCredentialCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "git-credential",
        abstract: "Store git's passwords: a credential helper.",
        discussion: """
            Uses git's protocol on standard input and output. The items are internet \
            passwords, which Docker and apps can use too: their prefix is internet-passwords. With --unlock-for, the passcode \
            is asked for once in that time.

            Example: git config --global credential.helper '!lockbox git-credential --unlock-for 1m'
            """
    )

    @Argument(help: "get, store or erase. Other operations are ignored, as git requires.")
    var operation: String

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

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
        let store = try choice.store(prefix: InternetPassword.sharedPrefix, asks: mayAsk)
        switch operation {
        case "get": try get(context, store)
        case "store": try keep(request, context, store)
        default: try erase(request, context, store)
        }
    }

    private static var mayAsk: Bool {
        !["0", "false", "no", "off"].contains((try? Environment["GIT_TERMINAL_PROMPT"])?.lowercased())
    }

    /// Prints the newest matching credential, if there is one. If there is none, it may be one of those that
    /// cannot be read, which are named in either case.
    private static func get(_ context: GitContext, _ store: Store) throws {
        var unreadable = Unreadable()
        let now = Date()
        let found = try store.internetPasswords(at: now, &unreadable, where: context.matches)
        let passwords = found.filter { $0.password.authenticationType == nil }
        for item in passwords.isEmpty ? found : passwords {
            do {
                let lines = try store.unlocking(for: item.key.key) { try answer(item, found, store, now) }
                if lines.count == 1 { continue }  // gone meanwhile
                unreadable.note()
                return try Output.bytes(
                    lines.reduce(into: Data()) { $0 += Data("\($1.0)=".utf8) + $1.1 + Data("\n".utf8) }
                )
            } catch let error as LockboxError where error.isOfOneItem {
                unreadable.add(item.key, error)
            }
        }
        try unreadable.fail(in: store)
    }

    /// The account's name, its password if there is one, and its refresh token if there is one.
    private static func answer(_ item: Store.Found, _ found: [Store.Found], _ store: Store, _ now: Date)
        throws
        -> [(String, Data)]
    {
        let account = item.password.with(authenticationType: nil)
        let token = found.first {
            $0.password != account && $0.password.with(authenticationType: nil) == account
        }
        var lines = [("username", Data(account.account.utf8))]
        if item.password == account, let (value, attributes) = try secret(item, store, now) {
            lines.append(("password", value))
            // An app may have set any date, also one that no Int64 holds.
            if let seconds = attributes.expires?.timeIntervalSince1970, seconds <= Double(endOfTime) {
                lines.append(("password_expiry_utc", Data("\(Int64(seconds))".utf8)))
            }
        }
        if let token, let (value, _) = try secret(token, store, now) {
            lines.append((InternetPassword.refreshToken, value))
        }
        return lines
    }

    /// Nil if the item is gone meanwhile, or git's protocol cannot express it.
    private static func secret(_ found: Store.Found, _ store: Store, _ now: Date?) throws -> (
        Data, ItemAttributes
    )? {
        guard let item = try store.open(found, now) else { return nil }
        let secret = try item.value.plain(item.key.key)
        return secret.contains(UInt8(ascii: "\n")) || secret.contains(0) ? nil : (secret, item.attributes)
    }

    private static func keep(_ request: GitRequest, _ context: GitContext, _ store: Store) throws {
        guard let account = context.password, let password = request["password"],
            !isTrue(request["ephemeral"])
        else { return }
        let now = Date()
        var expires = Expiry.never
        if let seconds = request["password_expiry_utc"].flatMap(integer) {
            let date = Date(timeIntervalSince1970: TimeInterval(min(seconds, endOfTime)))
            guard date > now else { return }
            expires = .at(date)
        }
        let token = account.with(authenticationType: InternetPassword.refreshToken)
        try store.unlocking {
            let old = try stored(account, store, now)
            let oldToken = try stored(token, store, now)
            // git sends this every time it has used the credential.
            let isSame =
                old.value == password && old.attributes?.expires.map(Expiry.at) ?? .never == expires
                && oldToken.value == request[InternetPassword.refreshToken]
            if isSame, !oldToken.isDamaged { return }
            // An empty password can be right for a new credential, but a typing error must not replace an
            // existing one.
            if password.isEmpty, let value = old.value, !value.isEmpty {
                return store.say("An empty password does not replace the stored one.")
            }
            // Others may have added attributes, as Docker's helper does.
            let attributes = account.searchable.merging(old.attributes?.searchable ?? [:]) { mine, _ in mine }
            try store.lockbox.batch {
                try $0.archiveObject(
                    password,
                    forKey: account.key.name,
                    options: WriteOptions(expires: expires, attributes: .set(attributes))
                )
                // A damaged token goes too.
                if let new = request[InternetPassword.refreshToken] {
                    try $0.archiveObject(new, forKey: token.key)
                } else {
                    try $0.removeObject(forKey: token.key)
                }
            }
        }
    }

    /// The stored password. A damaged value counts as none: a new one replaces it.
    private static func stored(_ password: InternetPassword, _ store: Store, _ now: Date) throws
        -> (value: Data?, attributes: ItemAttributes?, isDamaged: Bool)
    {
        do {
            let item = try store.item(password, now)
            return (item?.value.data, item?.attributes, false)
        } catch let error as LockboxError where error.isOfOneItem {
            // They can often be read when the value cannot.
            return (nil, try? store.attributes(password, now), true)
        }
    }

    /// Removes the matching credentials. If there is a password, removes only those that have it, because a
    /// newer one may have been stored since. A damaged one may have it, and is named.
    private static func erase(_ request: GitRequest, _ context: GitContext, _ store: Store) throws {
        var unreadable = Unreadable()
        let found = try store.internetPasswords(at: nil, &unreadable, where: context.matches)
        var erased: Set<InternetPassword> = []
        for item in found where item.password.authenticationType == nil {
            do {
                if try store.unlocking({ try erase(item, ifItIs: request["password"], store) }) {
                    erased.insert(item.password)
                }
            } catch let error as LockboxError where error.isOfOneItem {
                unreadable.add(item.key, error)
            }
        }
        for item in found where item.password.authenticationType != nil {
            let account = item.password.with(authenticationType: nil)
            if request["password"] == nil || erased.contains(account) { try store.backend.remove(item.key) }
        }
        try unreadable.fail(in: store)
    }

    /// Returns whether the password was removed.
    private static func erase(_ item: Store.Found, ifItIs password: Data?, _ store: Store) throws -> Bool {
        guard let password else {
            try store.backend.remove(item.key)
            return true
        }
        var isErased = false
        try store.backend.update(item.key, now: nil) { old in
            isErased = try old?.value.plain(item.key.key) == password
            return isErased ? nil : old
        }
        return isErased
    }

    private static func isTrue(_ value: Data?) -> Bool {
        value.map { ["1", "true", "yes", "on"].contains(String(decoding: $0, as: UTF8.self).lowercased()) }
            ?? false
    }

    /// The last second of the year 9999, as a limit for expiry dates.
    private static let endOfTime: Int64 = 253_402_300_799

    private static func integer(_ value: Data) -> Int64? { Int64(String(decoding: value, as: UTF8.self)) }
}

extension LockboxError {
    /// Whether the other items may be fine.
    fileprivate var isOfOneItem: Bool {
        [.corrupt, .authenticationFailed, .decodingFailed, .unsupportedVersion].contains(code)
    }
}

/// The credentials that a request is about.
struct GitContext {
    private let scheme: String
    private let server: String
    private let port: Int?
    private let path: String?
    /// Nil matches every user name.
    private let username: String?

    /// Nil if the request is incomplete, or contains characters that a URL cannot have, or bytes that are not
    /// UTF-8.
    init?(_ request: GitRequest) {
        var parts: [String: String] = [:]
        for name in ["protocol", "host", "path", "username"] {
            guard let bytes = request[name] else { continue }
            guard let text = String(validating: bytes, as: UTF8.self),
                !bytes.contains(where: { $0 < 0x20 || $0 == 0x7F })
            else { return nil }
            parts[name] = text
        }
        guard let scheme = parts["protocol"], !scheme.isEmpty, let host = parts["host"] else { return nil }
        // A file, such as a certificate, has a path instead of a host.
        if host.isEmpty, parts["path"]?.isEmpty ?? true { return nil }
        self.scheme = scheme
        (server, port) = InternetPassword.serverAndPort(host)
        path = parts["path"].flatMap { $0.isEmpty ? nil : $0 }
        username = parts["username"]
    }

    /// Nil if there is no user name.
    var password: InternetPassword? {
        username.map {
            InternetPassword(server: server, account: $0, protocol: scheme, port: port, path: path)
        }
    }

    /// Whether a stored credential matches this request. A request without a user name or a path
    /// matches all of them, as in git.
    func matches(_ stored: InternetPassword) -> Bool {
        !stored.account.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F }
            && scheme.isSame(as: stored.protocol) && server.isSame(as: stored.server) && port == stored.port
            && (path == nil || path.isSame(as: stored.path))
            && (username == nil || username.isSame(as: stored.account))
            && [nil, InternetPassword.refreshToken].contains(stored.authenticationType)
    }
}

/// A request of git's credential protocol: one attribute per line, in any encoding.
struct GitRequest {
    /// Larger than any request of git, which may include headers of a server's response.
    static let maximumLength = 256 * 1024

    private var attributes: [String: Data] = [:]

    /// - Throws: A ``Failure`` if the input is malformed. None of it is then used.
    init(_ input: Data) throws {
        for line in input.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            if line.isEmpty { break }
            guard let equals = line.firstIndex(of: UInt8(ascii: "=")), !line.contains(0),
                let name = String(validating: line[..<equals], as: UTF8.self)
            else {
                throw Failure(.usage, "Standard input is not a git credential request. Nothing was done.")
            }
            // git may repeat those that are lists. Of two hosts, nobody knows which one is meant.
            guard attributes[name] == nil || name.hasSuffix("[]") else {
                throw Failure(.usage, "git's request has `\(name.onOneLine)` twice. Nothing was done.")
            }
            attributes[name] = Data(line[line.index(after: equals)...])
        }
    }

    subscript(name: String) -> Data? { attributes[name] }
}
