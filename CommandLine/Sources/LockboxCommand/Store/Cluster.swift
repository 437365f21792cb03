import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxStore

extension StoreChoice {
    /// Where the records are. Connects to nothing yet.
    var storage: CommandStorage {
        get throws {
            switch try storeAddress {
            case .folder(let folder):
                return .files(folder.map { FileStorage(directory: $0) } ?? FileStorage.default)
            case .cluster(let address): return try .cluster(address, access.complete)
            }
        }
    }
}

#if Etcd
    import LockboxEtcd

    /// The records of a store: in files, or in a cluster.
    enum CommandStorage: ForwardingStorage {
        case files(FileStorage)
        case cluster(EtcdStorage)

        static func cluster(_ address: ClusterAddress, _ access: ClusterAccess) throws -> CommandStorage {
            let security: EtcdSecurity =
                address.isEncrypted
                ? .tls(
                    caFile: access.caFile,
                    certificateFile: access.certificate,
                    keyFile: access.certificateKey
                ) : .insecurePlaintext
            return .cluster(
                try EtcdStorage(
                    endpoints: address.endpoints,
                    root: address.root,
                    security: security,
                    user: access.user.map { Self.user($0, access.userPasswordFile) }
                )
            )
        }

        /// The password is asked for once: `status` asks each member on its own.
        private static func user(_ name: String, _ file: String?) -> EtcdUser {
            if let file { return EtcdUser(name: name, passwordFile: file) }
            let typed = Typed()
            return EtcdUser(name: name) {
                try typed.text {
                    let typed = try Terminal.secret(
                        "Password of the cluster's user \(name.onOneLine): ",
                        otherwise: "The password of the cluster's user is needed: use --user-password-file."
                    )
                    return String(decoding: typed.bytes, as: UTF8.self)
                }
            }
        }

        // Unchecked: the command asks in one thread.
        private final class Typed: @unchecked Sendable {
            private var text: String?

            func text(_ ask: () throws -> String) rethrows -> String {
                if let text { return text }
                let new = try ask()
                text = new
                return new
            }
        }

        /// The storage that does the work.
        var target: any RecordStorage {
            switch self {
            case .files(let files): files
            case .cluster(let etcd): etcd
            }
        }

        var address: String {
            switch self {
            case .files(let files): files.directory
            case .cluster(let etcd): "etcd:\(etcd.root)"
            }
        }

        /// Nil if the store is in files.
        var memberDescriptions: [MemberDescription]? {
            guard case .cluster(let etcd) = self else { return nil }
            return zip(etcd.endpoints, etcd.members()).map { endpoint, answer in
                switch answer {
                case .success(let member):
                    MemberDescription(
                        endpoint: endpoint,
                        state: member.isLeader ? "leader" : "follower",
                        version: member.version,
                        databaseBytes: member.databaseSize,
                        milliseconds: member.latency / .milliseconds(1),
                        reason: nil
                    )
                case .failure(let error): MemberDescription(endpoint: endpoint, error)
                }
            }
        }

        var isCluster: Bool { if case .cluster = self { true } else { false } }

        /// See `EtcdStorage.compact()`. Nothing to do for files.
        func compact() throws { if case .cluster(let etcd) = self { try etcd.compact() } }

        // MARK: Locks

        func commit(
            _ changes: [RecordChange],
            expecting: [RecordName: RecordRevision],
            lock: inout (any StorageLock)?
        ) throws -> CommitOutcome { try target.commit(changes, expecting: expecting, lock: &lock) }

        func lock(_ namespace: String?) throws -> (any StorageLock)? { try target.lock(namespace) }
    }
#else
    typealias CommandStorage = FileStorage

    extension FileStorage {
        static func files(_ storage: FileStorage) -> FileStorage { storage }

        static func cluster(_ address: ClusterAddress, _ access: ClusterAccess) throws -> FileStorage {
            throw Extension.missing("clusters", "--with-cluster")
        }

        var address: String { directory }
        var memberDescriptions: [MemberDescription]? { nil }
        var isCluster: Bool { false }
        func compact() throws {}
    }
#endif

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

/// How a cluster is reached: from options, or from the environment.
struct ClusterAccess {
    var caFile: String?
    var certificate: String?
    var certificateKey: String?
    var user: String?
    var userPasswordFile: String?

    /// With the environment's values in place of options that were not given.
    var complete: ClusterAccess {
        get throws {
            try ClusterAccess(
                caFile: caFile ?? Environment["LOCKBOX_CA_FILE"],
                certificate: certificate ?? Environment["LOCKBOX_CERTIFICATE_FILE"],
                certificateKey: certificateKey ?? Environment["LOCKBOX_CERTIFICATE_KEY_FILE"],
                user: user ?? Environment["LOCKBOX_USER"],
                userPasswordFile: userPasswordFile ?? Environment["LOCKBOX_USER_PASSWORD_FILE"]
            )
        }
    }
}

/// How a store in a cluster is reached.
struct ClusterOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            Trust the authorities in this PEM file, instead of the system's, if the store is in a cluster. \
            (default: $LOCKBOX_CA_FILE)
            """,
            valueName: "file"
        ),
        completion: .file()
    )
    var caFile: String?

    @Option(
        help: ArgumentHelp(
            "The client certificate for the cluster, a PEM file. (default: $LOCKBOX_CERTIFICATE_FILE)",
            valueName: "file"
        ),
        completion: .file()
    )
    var certificateFile: String?

    @Option(
        help: ArgumentHelp(
            "The private key of the client certificate. (default: $LOCKBOX_CERTIFICATE_KEY_FILE)",
            valueName: "file"
        ),
        completion: .file()
    )
    var certificateKeyFile: String?

    @Option(
        help: ArgumentHelp("The cluster's user. (default: $LOCKBOX_USER)", valueName: "name")
    )
    var user: String?

    @Option(
        help: ArgumentHelp(
            "Read the user's password from this file. (default: $LOCKBOX_USER_PASSWORD_FILE)",
            valueName: "file"
        ),
        completion: .file()
    )
    var userPasswordFile: String?

    var access: ClusterAccess {
        ClusterAccess(
            caFile: caFile,
            certificate: certificateFile,
            certificateKey: certificateKeyFile,
            user: user,
            userPasswordFile: userPasswordFile
        )
    }
}
