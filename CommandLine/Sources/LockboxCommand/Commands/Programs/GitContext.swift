import Lockbox

/// Which credentials a request is about.
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

    /// Whether a stored credential matches this request. As in git, a request without a user name or a path
    /// matches all of them.
    func matches(_ stored: InternetPassword) -> Bool {
        !stored.account.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F }
            && scheme.isSame(as: stored.protocol) && server.isSame(as: stored.server) && port == stored.port
            && (path == nil || path.isSame(as: stored.path))
            && (username == nil || username.isSame(as: stored.account))
            && [nil, InternetPassword.refreshToken].contains(stored.authenticationType)
    }
}
