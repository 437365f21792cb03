public import LockboxCore
public import LockboxPlatform

/// Identifies the password of an account on a server, like the Keychain's class of internet passwords.
///
/// ```swift
/// let lockbox = try Lockbox(keyPrefix: InternetPassword.sharedPrefix)
/// let password = InternetPassword(server: "example.com", account: "alice", protocol: "https")
/// try lockbox.archiveObject(Data("hunter2".utf8), forKey: password.key)
///
/// let list = try lockbox.list(matching: ["server": "example.com"])
/// let accounts = list.items.values.compactMap(InternetPassword.init).map(\.account)
/// ```
///
/// The properties are the primary key of `kSecClassInternetPassword`. An item has them as searchable attributes, under
/// the names of the properties. A property that is `nil` adds no attribute.
///
/// `lockbox git-credential` and `lockbox docker-credential` use the same items.
public struct InternetPassword: Sendable, Hashable {
    /// The prefix of the passwords that programs share: `internet-passwords`. The credential helpers use it.
    public static let sharedPrefix = "internet-passwords"

    /// The server's name or address, without the port. `kSecAttrServer`.
    public let server: String

    /// The account's name. May be empty. `kSecAttrAccount`.
    public let account: String

    /// The scheme of the server's URLs, such as `https`. `kSecAttrProtocol`.
    public let `protocol`: String?

    /// The port, if it is not the protocol's default. `kSecAttrPort`.
    public let port: Int?

    /// The path on the server, usually without the first slash. `kSecAttrPath`.
    public let path: String?

    /// The realm that the server names. `kSecAttrSecurityDomain`.
    public let securityDomain: String?

    /// The kind of secret, if an account has several, such as `oauth_refresh_token`. `kSecAttrAuthenticationType`.
    public let authenticationType: String?

    /// Creates the identity of a password.
    ///
    /// - Parameters:
    ///   - server: The server's name or address, without the port.
    ///   - account: The account's name. May be empty.
    ///   - protocol: The scheme of the server's URLs, such as `https`.
    ///   - port: The port, if it is not the protocol's default.
    ///   - path: The path on the server. An empty path counts as `nil`.
    ///   - securityDomain: The realm that the server names.
    ///   - authenticationType: The kind of secret, if an account has several, such as `oauth_refresh_token`.
    public init(
        server: String,
        account: String,
        protocol: String? = nil,
        port: Int? = nil,
        path: String? = nil,
        securityDomain: String? = nil,
        authenticationType: String? = nil
    ) {
        self.server = server
        self.account = account
        self.protocol = `protocol`
        self.port = port
        self.path = path.flatMap { $0.isEmpty ? nil : $0 }
        self.securityDomain = securityDomain
        self.authenticationType = authenticationType
    }

    /// Creates the identity of a password from an item's searchable attributes, or `nil` if the item is not an
    /// internet password. One whose port is not written as a number is none: without the port, it would be another's.
    ///
    /// - Parameter attributes: The item's attributes.
    public init?(_ attributes: ItemAttributes) {
        let texts = attributes.searchable
        guard let server = texts["server"], let account = texts["account"] else { return nil }
        let port = texts["port"].flatMap { Int($0) }
        guard port.map({ "\($0)" }) == texts["port"] else { return nil }
        self.init(
            server: server,
            account: account,
            protocol: texts["protocol"],
            port: port,
            path: texts["path"],
            securityDomain: texts["securityDomain"],
            authenticationType: texts["authenticationType"]
        )
    }

    /// The searchable attributes of the item.
    public var searchable: [String: String] {
        [
            "server": server,
            "account": account,
            "protocol": `protocol`,
            "port": port.map { "\($0)" },
            "path": path,
            "securityDomain": securityDomain,
            "authenticationType": authenticationType,
        ].compactMapValues { $0 }
    }

    /// The item's key, with its searchable attributes. The value is the password's bytes.
    ///
    /// The key is a URL such as `https://alice@example.com:8443/path`, with percent-encoded parts. Different
    /// identities have different keys.
    public var key: LockboxKey<Data?> {
        LockboxKey(name, options: WriteOptions(attributes: .set(searchable)))
    }

    private var name: String {
        var name = "\(`protocol`.map { "\($0.percentEncoded()):" } ?? "")//\(account.percentEncoded())@"
        name += server.percentEncoded(keeping: server.hasPrefix("[") && server.hasSuffix("]") ? "[:]" : "")
        if let port { name += ":\(port)" }
        if let path { name += "/\(path.percentEncoded(keeping: "/"))" }
        let rest = [("securityDomain", securityDomain), ("authenticationType", authenticationType)]
            .compactMap { name, text in text.map { "\(name)=\($0.percentEncoded())" } }
        return rest.isEmpty ? name : "\(name)?\(rest.joined(separator: "&"))"
    }
}

extension String {
    /// Encodes every byte but the unreserved ones of RFC 3986, section 2.3, and `others`.
    fileprivate func percentEncoded(keeping others: String = "") -> String {
        let kept = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~\(others)".utf8)
        let digits = Array("0123456789ABCDEF".unicodeScalars)
        var text = UnicodeScalarView()
        for byte in utf8 {
            if kept.contains(byte) {
                text.append(Unicode.Scalar(byte))
            } else {
                text.append(contentsOf: ["%", digits[Int(byte >> 4)], digits[Int(byte & 15)]])
            }
        }
        return String(text)
    }
}
