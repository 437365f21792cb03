import Lockbox

extension StoreChoice {
    /// Where the records are. Connects to nothing yet.
    var storage: CommandStorage {
        get throws {
            switch try storeAddress {
            case .folder(let folder):
                return .files(
                    folder.map { FileStorage(directory: $0) } ?? EncryptedFileBackend.default.storage
                )
            case .cluster(let address): return try .cluster(address, access.complete)
            }
        }
    }
}

#if Etcd
    import LockboxEtcd
    @_spi(Extensions) import LockboxStore

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
