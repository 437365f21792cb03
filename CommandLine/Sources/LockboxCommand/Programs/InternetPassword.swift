import Lockbox

extension InternetPassword {
    /// Kept beside the password of the same account.
    static let refreshToken = "oauth_refresh_token"

    /// Parses `server:port`, as URLs have it.
    static func serverAndPort(_ text: String) -> (server: String, port: Int?) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]),
            port > 0, text[colon...] == ":\(port)",
            !text[..<colon].contains(":") || text[..<colon].hasSuffix("]")
        else {
            return (text, nil)
        }
        return (String(text[..<colon]), Int(port))
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

extension Optional where Wrapped == String {
    /// Compares bytes. Swift takes texts for equal that look alike, such as K and the Kelvin sign: that is another server.
    func isSame(as other: String?) -> Bool { self.map { Array($0.utf8) } == other.map { Array($0.utf8) } }
}

extension String {
    /// Compares bytes.
    func isSame(as other: String?) -> Bool { Optional(self).isSame(as: other) }
}

extension Store {
    /// An internet password that was found, with the item's real key.
    struct Found {
        let key: ItemKey
        let password: InternetPassword
        let attributes: ItemAttributes
    }

    func item(_ password: InternetPassword, _ now: Date?) throws -> StoredItem? {
        try backend.item(for: ItemKey(prefix: prefix, key: password.key.name), now: now)
    }

    func attributes(_ password: InternetPassword, _ now: Date?) throws -> ItemAttributes? {
        try backend.attributes(for: ItemKey(prefix: prefix, key: password.key.name), now: now)
    }

    /// Opens what was found, as a whole. Nil if it is gone, or if it is another password now: while the store is locked, whoever
    /// has the device key can forge attributes.
    func open(_ found: Found, _ now: Date?) throws -> StoredItem? {
        let item = try backend.item(for: found.key, now: now)
        return item.flatMap { InternetPassword($0.attributes) == found.password ? $0 : nil }
    }

    /// Returns the internet passwords that match, the newest first.
    func internetPasswords(
        at now: Date?,
        _ unreadable: inout Unreadable,
        where matches: (InternetPassword) -> Bool
    ) throws -> [Found] {
        var found: [Found] = []
        try backend.forEachItem(prefix: prefix, now: now, unreadable: { unreadable.add($0) }) {
            guard let password = InternetPassword($1), matches(password) else { return }
            found.append(Found(key: $0, password: password, attributes: $1))
        }
        return found.sorted {
            ($1.attributes.modified, $0.key.key) < ($0.attributes.modified, $1.key.key)
        }
    }
}
