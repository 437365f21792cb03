import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxStore

/// The storage of a store in a cluster, with what files do not have.
protocol ClusterStorage: RecordStorage {
    var root: String { get }
    var memberDescriptions: [MemberDescription] { get }

    /// See `EtcdStorage.compact()`.
    func compact() throws
}

#if Etcd
    import LockboxEtcd

    extension EtcdStorage: ClusterStorage {
        var memberDescriptions: [MemberDescription] {
            zip(endpoints, members()).map { endpoint, answer in
                switch answer {
                case .success(let member):
                    MemberDescription(
                        endpoint: endpoint,
                        state: member.isLeader ? "leader" : "follower",
                        version: member.version,
                        databaseBytes: member.databaseSize,
                        milliseconds: member.latency / .milliseconds(1)
                    )
                case .failure(let error):
                    // A member may answer everybody, but say how it is only to some.
                    MemberDescription(
                        endpoint: endpoint,
                        state: error.code == .accessDenied ? "denied" : "unreachable",
                        reason: "\(error)"
                    )
                }
            }
        }
    }

    extension EtcdUser {
        /// The password is asked for once: `status` asks each member on its own.
        fileprivate init(_ name: String, passwordFile: String?) {
            if let passwordFile {
                self.init(name: name, passwordFile: passwordFile)
                return
            }
            nonisolated(unsafe) var known: String?  // the command asks in one thread
            self.init(name: name) {
                if let known { return known }
                let typed = try Terminal.secret(
                    "Password of the cluster's user \(name.onOneLine): ",
                    otherwise: "The password of the cluster's user is needed: use --user-password-file."
                )
                let password = String(decoding: typed.bytes, as: UTF8.self)
                known = password
                return password
            }
        }
    }
#endif

/// The address of a store in a cluster, such as `etcd://a.example:2379,b.example:2379/secrets/shop`.
struct ClusterAddress {
    let isEncrypted: Bool
    let hosts: [String]
    let root: String

    /// Returns nil if the scheme is not that of a cluster.
    init?(_ text: String) throws {
        let form = /etcd(\+plaintext)?:\/\/([^\/]*)(.*)/.dotMatchesNewlines()
        guard Self.isScheme(of: text), let parts = text.wholeMatch(of: form) else { return nil }
        isEncrypted = parts.1 == nil
        hosts = parts.2.split(separator: ",").map { Self.withPort(String($0)) }
        root = String(parts.3)
        if hosts.isEmpty || !root.contains(where: { $0 != "/" }) {
            throw Failure(
                .usage,
                "The address of a cluster has hosts and a root, such as etcd://a.example:2379,b.example:2379/secrets/shop."
            )
        }
    }

    var endpoints: [String] { hosts.map { "\(isEncrypted ? "https" : "http")://\($0)" } }

    /// Connects to nothing yet.
    func storage(_ access: [ClusterSetting: String]) throws -> any ClusterStorage {
        #if Etcd
            func value(of setting: ClusterSetting) throws -> String? {
                try access[setting] ?? Environment[setting.variable]
            }
            let (certificate, key) = try (value(of: .certificate), value(of: .certificateKey))
            let security: EtcdSecurity =
                try isEncrypted
                ? .tls(caFile: value(of: .caFile), certificateFile: certificate, keyFile: key)
                : .insecurePlaintext
            let file = try value(of: .userPassword)
            let user = try value(of: .user).map { EtcdUser($0, passwordFile: file) }
            return try EtcdStorage(endpoints: endpoints, root: root, security: security, user: user)
        #else
            throw Extension.missing("clusters", "--with-cluster")
        #endif
    }

    /// Whether a text is the address of a cluster, valid or not. Called for each word of each command.
    static func isScheme(of text: some StringProtocol) -> Bool {
        text.hasPrefix("etcd://") || text.hasPrefix("etcd+plaintext://")
    }

    /// The port of etcd, if there is none.
    private static func withPort(_ host: String) -> String {
        // In an IPv6 address, the port follows the bracket.
        let end = host.lastIndex(of: "]") ?? host.startIndex
        return host[end...].contains(":") ? host : "\(host):2379"
    }
}

/// An option that says how a cluster is reached. Otherwise its variable does.
enum ClusterSetting: String, CaseIterable {
    case caFile = "ca-file"
    case certificate = "certificate-file"
    case certificateKey = "certificate-key-file"
    case user
    case userPassword = "user-password-file"

    var variable: String { "LOCKBOX_\(rawValue.uppercased().replacing("-", with: "_"))" }
}

/// How a store in a cluster is reached.
struct ClusterOptions: ParsableArguments {
    @Option(
        .caFile,
        "Trust the authorities in this PEM file, instead of the system's, if the store is in a cluster."
    )
    var caFile: String?

    @Option(.certificate, "The client certificate for the cluster, a PEM file.")
    var certificateFile: String?

    @Option(.certificateKey, "The private key of the client certificate.")
    var certificateKeyFile: String?

    @Option(.user, "The cluster's user.")
    var user: String?

    @Option(.userPassword, "Read the user's password from this file.")
    var userPasswordFile: String?

    /// The settings that were given.
    var access: [ClusterSetting: String] {
        let access: [ClusterSetting: String?] = [
            .caFile: caFile, .certificate: certificateFile, .certificateKey: certificateKeyFile, .user: user,
            .userPassword: userPasswordFile,
        ]
        return access.compactMapValues(\.self)
    }
}

extension Option where Value == String? {
    fileprivate init(_ setting: ClusterSetting, _ text: String) {
        let isFile = setting != .user
        self.init(
            name: .customLong(setting.rawValue),
            help: .init("\(text) (default: $\(setting.variable))", valueName: isFile ? "file" : "name"),
            completion: isFile ? .file() : nil
        )
    }
}
