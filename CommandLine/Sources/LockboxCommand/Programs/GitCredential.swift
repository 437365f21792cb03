import ArgumentParser
import Lockbox

struct GitCredentialCommand: Command {
    static let help: CommandHelp = """
        git-credential: Store git's passwords: a credential helper. Its help has the line for git's configuration.

        Uses git's protocol on standard input and output. The items are internet passwords, which Docker and apps can use \
        too: their prefix is internet-passwords. With --unlock-for, the passcode is asked for once in that time.

        Example: git config --global credential.helper '!lockbox git-credential --unlock-for 1m'
        """

    @Argument(help: "get, store or erase. Other operations are ignored, as git requires.")
    var operation: String

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        try options.checkStandardInput(carries: "git's request")
    }

    func run() throws { try Self.run(operation, options.choice) }

    static func run(_ operation: String, _ choice: StoreChoice) throws {
        guard ["get", "store", "erase"].contains(operation) else { return }
        let request = try GitRequest(Input.all(limit: GitRequest.maximumLength))
        guard let context = GitContext(request) else { return }
        let store = try choice.store(prefix: InternetPassword.sharedPrefix, asks: mayAsk, for: .making)
        try store.unlockIfGiven()
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
        var (found, unreadable) = try store.internetPasswords(at: Date(), where: context.matches)
        let passwords = found.filter { $0.password.authenticationType == nil }
        for item in passwords.isEmpty ? found : passwords {
            do {
                let text = try store.unlocking(for: item.key.key) { try answer(item, found, store) }
                guard let text else { continue }
                unreadable.note()
                return try Output.bytes(text)
            } catch let error as LockboxError where error.isOfOneItem {
                unreadable.add(item.key, error)
            }
        }
        try unreadable.fail(in: store)
    }

    /// Returns the account's name, and its password and refresh token if there are any, or nil if both are gone meanwhile.
    private static func answer(_ item: Store.Found, _ found: [Store.Found], _ store: Store) throws -> Data? {
        let account = item.password.with(authenticationType: nil)
        let token = found.first {
            $0.password != account && $0.password.with(authenticationType: nil) == account
        }
        let password = item.password == account ? try secret(item, store) : nil
        let newToken = try token.flatMap { try secret($0, store) }
        if password == nil, newToken == nil { return nil }
        // An app may have set any date, also one that no Int64 holds.
        let expires = password?.expires.map(\.timeIntervalSince1970).flatMap {
            $0.magnitude <= Double(endOfTime) ? Int64($0) : nil
        }
        let lines = [
            ("username", Data(account.account.utf8)), ("password", password?.value),
            ("password_expiry_utc", expires.map { Data("\($0)".utf8) }),
            (InternetPassword.refreshToken, newToken?.value),
        ]
        return lines.reduce(into: Data()) { text, line in
            if let value = line.1 { text += Data("\(line.0)=".utf8) + value + Data("\n".utf8) }
        }
    }

    /// Returns nil if the item is gone meanwhile, or git's protocol cannot express it.
    private static func secret(_ found: Store.Found, _ store: Store) throws -> (value: Data, expires: Date?)?
    {
        guard let item = try store.open(found) else { return nil }
        let secret = try item.value.plain(item.key.key)
        return secret.contains(UInt8(ascii: "\n")) || secret.contains(0)
            ? nil : (secret, item.attributes.expires)
    }

    private static func keep(_ request: GitRequest, _ context: GitContext, _ store: Store) throws {
        let isEphemeral = ["1", "true", "yes", "on"].contains(request.text("ephemeral")?.lowercased())
        guard let account = context.password, let password = request["password"], !isEphemeral else { return }
        let now = Date()
        var expires = Expiry.never
        if let seconds = request.text("password_expiry_utc").flatMap({ Int64($0) }) {
            let date = Date(timeIntervalSince1970: TimeInterval(min(seconds, endOfTime)))
            guard date > now else { return }
            expires = .at(date)
        }
        let token = account.with(authenticationType: InternetPassword.refreshToken)
        try store.unlocking {
            let old = try store.stored(account, at: now)
            let oldToken = try store.stored(token, at: now)
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
            let options = WriteOptions(expires: expires, attributes: .set(attributes))
            try store.lockbox.batch {
                try $0.archiveObject(password, forKey: account.key.name, options: options)
                // A damaged token goes too.
                if let new = request[InternetPassword.refreshToken] {
                    try $0.archiveObject(new, forKey: token.key)
                } else {
                    try $0.removeObject(forKey: token.key)
                }
            }
        }
    }

    /// Removes the matching credentials. If there is a password, removes only those that have it, because a
    /// newer one may have been stored since. A damaged one may have it, and is named.
    private static func erase(_ request: GitRequest, _ context: GitContext, _ store: Store) throws {
        var (found, unreadable) = try store.internetPasswords(at: nil, where: context.matches)
        let password = request["password"]
        for item in found where password == nil || item.password.authenticationType == nil {
            do {
                guard try store.unlocking({ try erase(item, ifItIs: password, store) }) else { continue }
                let token = item.password.with(authenticationType: InternetPassword.refreshToken)
                for item in found where item.password == token { try store.backend.remove(item.key) }
            } catch let error as LockboxError where error.isOfOneItem {
                unreadable.add(item.key, error)
            }
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

    /// The last second of the year 9999, as a limit for expiry dates.
    private static let endOfTime: Int64 = 253_402_300_799
}

/// The credentials that a request is about.
struct GitContext {
    /// Without a user name or a path, all of them are meant, as in git.
    private let account: InternetPassword
    private let hasUser: Bool

    /// Returns nil if the request is incomplete, or contains characters that a URL cannot have, or bytes that are not UTF-8.
    init?(_ request: GitRequest) {
        var parts: [String: String] = [:]
        for name in ["protocol", "host", "path", "username"] {
            guard let bytes = request[name] else { continue }
            guard let text = String(validating: bytes, as: UTF8.self), !text.hasControlCharacters else {
                return nil
            }
            parts[name] = text
        }
        guard let scheme = parts["protocol"], !scheme.isEmpty, let host = parts["host"] else { return nil }
        // A file, such as a certificate, has a path instead of a host.
        if host.isEmpty, parts["path"]?.isEmpty ?? true { return nil }
        let (server, port) = InternetPassword.serverAndPort(host)
        hasUser = parts["username"] != nil
        account = InternetPassword(
            server: server,
            account: parts["username"] ?? "",
            protocol: scheme,
            port: port,
            path: parts["path"]
        )
    }

    /// The account, or nil if the request has no user name.
    var password: InternetPassword? { hasUser ? account : nil }

    /// Whether a stored credential matches this request.
    func matches(_ stored: InternetPassword) -> Bool {
        let user = hasUser ? stored.account : ""
        return !stored.account.hasControlCharacters
            && stored.url(account: user, path: account.path == nil ? nil : stored.path) == account.key.name
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
            // git may repeat those that are lists. Two hosts would leave open which one is meant.
            guard attributes[name] == nil || name.hasSuffix("[]") else {
                throw Failure(.usage, "git's request has `\(name.onOneLine)` twice. Nothing was done.")
            }
            attributes[name] = Data(line[line.index(after: equals)...])
        }
    }

    subscript(name: String) -> Data? { attributes[name] }

    func text(_ name: String) -> String? { self[name].map { String(decoding: $0, as: UTF8.self) } }
}
