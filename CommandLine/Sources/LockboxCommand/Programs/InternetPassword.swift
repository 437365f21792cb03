import Lockbox

extension InternetPassword {
    /// Kept beside the password of the same account.
    static let refreshToken = "oauth_refresh_token"

    /// Parses `server:port`, as URLs have it.
    static func serverAndPort(_ text: String) -> (server: String, port: Int?) {
        let parts = text.wholeMatch(of: /([^:]*|.*\]):([1-9][0-9]*)/.dotMatchesNewlines())
        guard let parts, let port = UInt16(parts.2) else { return (text, nil) }
        return (String(parts.1), Int(port))
    }

    /// The URL of the account, or without it, as percent-encoded ASCII. Swift takes texts for equal that look alike, such as K and
    /// the Kelvin sign: that is another server.
    func url(account: String = "", path: String?) -> String {
        InternetPassword(server: server, account: account, protocol: `protocol`, port: port, path: path).key
            .name
    }

    /// The same account's other secret.
    func with(authenticationType: String?) -> InternetPassword {
        InternetPassword(
            server: server,
            account: account,
            protocol: `protocol`,
            port: port,
            path: path,
            securityDomain: securityDomain,
            authenticationType: authenticationType
        )
    }
}

extension String {
    /// A line of git's protocol has none, and neither has a URL.
    var hasControlCharacters: Bool { utf8.contains { $0 < 0x20 || $0 == 0x7F } }
}

extension Store {
    /// An internet password that was found, with the item's real key.
    struct Found {
        let key: ItemKey
        let password: InternetPassword
        let attributes: ItemAttributes
    }

    /// The stored password. A damaged value counts as none: a new one replaces it.
    func stored(_ password: InternetPassword, at now: Date?) throws
        -> (value: Data?, attributes: ItemAttributes?, isDamaged: Bool)
    {
        let key = try ItemKey(prefix: prefix, key: password.key.name)
        do {
            let item = try backend.item(for: key, now: now)
            return (item?.value.data, item?.attributes, false)
        } catch let error as LockboxError where error.isOfOneItem {
            // They can often be read when the value cannot.
            return (nil, try? backend.attributes(for: key, now: now), true)
        }
    }

    /// Opens what was found, as a whole. Returns nil if it is gone, or is another password now: while the store is locked, an
    /// attacker with the device key can forge attributes.
    func open(_ found: Found) throws -> StoredItem? {
        let item = try backend.item(for: found.key, now: Date())
        return item.flatMap { InternetPassword($0.attributes) == found.password ? $0 : nil }
    }

    typealias PasswordList = (found: [Found], unreadable: Unreadable)

    /// Returns the internet passwords that match, the newest first, and the items that cannot be read: any may be one of them.
    func internetPasswords(at now: Date?, where matches: (InternetPassword) -> Bool) throws -> PasswordList {
        var (found, unreadable) = ([Found](), Unreadable())
        try backend.forEachItem(prefix: prefix, now: now, unreadable: { unreadable.add($0) }) {
            guard let password = InternetPassword($1), matches(password) else { return }
            found.append(Found(key: $0, password: password, attributes: $1))
        }
        found.sort { ($1.attributes.modified, $0.key.key) < ($0.attributes.modified, $1.key.key) }
        return (found, unreadable)
    }
}

extension LockboxError {
    /// Whether the other items may be fine.
    var isOfOneItem: Bool {
        [.corrupt, .authenticationFailed, .decodingFailed, .unsupportedVersion].contains(code)
    }
}
