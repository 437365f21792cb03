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
            attributes[name] = Data(line[line.index(after: equals)...])
        }
    }

    subscript(name: String) -> Data? { attributes[name] }
}

/// The identity of a credential, such as `https://alice@example.com/path`, which is also the item's key.
///
/// Each part is percent-encoded, so its bytes cannot be mistaken for a separator.
struct GitContext {
    let scheme: String
    let host: String
    let path: String?
    /// Nil matches every user name.
    let username: String?

    /// Nil if the request is incomplete, or contains characters that a URL cannot have.
    init?(_ request: GitRequest) {
        let parts = ["protocol", "host", "path", "username"].map { request[$0] }
        guard !parts.contains(where: { $0?.contains { $0 < 0x20 || $0 == 0x7F } ?? false }) else {
            return nil
        }
        guard let scheme = parts[0], !scheme.isEmpty, let host = parts[1] else { return nil }
        // A file, such as a certificate, has a path instead of a host.
        if host.isEmpty, parts[2]?.isEmpty ?? true { return nil }
        self.scheme = Self.encoded(scheme, keeping: "")
        self.host = Self.encoded(host, keeping: ":[]")
        path = parts[2].map { Self.encoded($0, keeping: "/") }
        username = parts[3].map { Self.encoded($0, keeping: "") }
    }

    /// Nil if the key has another form.
    init?(key: String) {
        guard let colon = key.firstRange(of: "://"), let at = key[colon.upperBound...].firstIndex(of: "@")
        else {
            return nil
        }
        scheme = String(key[..<colon.lowerBound])
        username = String(key[colon.upperBound..<at])
        let rest = key[key.index(after: at)...]
        let slash = rest.firstIndex(of: "/")
        host = String(rest[..<(slash ?? rest.endIndex)])
        path = slash.map { String(rest[rest.index(after: $0)...]) }
    }

    /// Nil if there is no user name.
    var key: String? {
        username.map { "\(scheme)://\($0)@\(host)\(path.map { "/\($0)" } ?? "")" }
    }

    /// Whether a stored credential matches this request. As in git, a request without a user name or a path
    /// matches all of them.
    func matches(_ stored: GitContext) -> Bool {
        scheme == stored.scheme && host == stored.host && (path == nil || path == stored.path)
            && (username == nil || username == stored.username)
    }

    private static func encoded(_ bytes: Data, keeping others: String) -> String {
        let kept = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+\(others)".utf8)
        let digits = Array("0123456789ABCDEF")
        var text = ""
        for byte in bytes {
            if kept.contains(byte) {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                text += "%\(digits[Int(byte >> 4)])\(digits[Int(byte & 15)])"
            }
        }
        return text
    }
}
