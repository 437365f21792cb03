/// The address of a store in a cluster, such as `etcd://a.example:2379,b.example:2379/secrets/shop`.
struct ClusterAddress {
    let isEncrypted: Bool
    let hosts: [String]
    let root: String

    /// Returns nil if the scheme is not that of a cluster.
    init?(_ text: String) throws {
        guard let scheme = Self.schemes.first(where: { text.hasPrefix($0.prefix) }) else { return nil }
        isEncrypted = scheme.isEncrypted
        let rest = text.dropFirst(scheme.prefix.count)
        let end = rest.firstIndex(of: "/") ?? rest.endIndex
        hosts = rest[..<end].split(separator: ",").map { Self.withPort(String($0)) }
        root = String(rest[end...])
        if hosts.isEmpty || !root.contains(where: { $0 != "/" }) {
            throw Failure(
                .usage,
                "The address of a cluster has hosts and a root, such as etcd://a.example:2379,b.example:2379/secrets/shop."
            )
        }
    }

    var endpoints: [String] { hosts.map { "\(isEncrypted ? "https" : "http")://\($0)" } }

    /// Whether a text is the address of a cluster, valid or not.
    static func isScheme(of text: some StringProtocol) -> Bool {
        schemes.contains { text.hasPrefix($0.prefix) }
    }

    private static let schemes = [
        (prefix: "etcd://", isEncrypted: true), (prefix: "etcd+plaintext://", isEncrypted: false),
    ]

    /// The port of etcd, if there is none.
    private static func withPort(_ host: String) -> String {
        // In an IPv6 address, the port follows the bracket.
        let end = host.lastIndex(of: "]") ?? host.startIndex
        return host[end...].contains(":") ? host : "\(host):2379"
    }
}
