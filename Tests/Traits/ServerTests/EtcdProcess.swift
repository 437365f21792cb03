#if Etcd
    import Foundation
    import Lockbox
    import LockboxEtcd
    import LockboxIdentities

    /// A cluster of one member on this machine, with TLS.
    final class EtcdProcess {
        /// Where `Scripts/traits` looks for it too.
        static let program = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin")
            .split(separator: ":").map { "\($0)/etcd" }.first {
                FileManager.default.isExecutableFile(atPath: $0)
            }

        private let folder: String
        private let endpoint: String
        private let process: KeptProcess

        init(_ folder: String) throws {
            self.folder = folder
            let authority = try Authority("etcd")
            let identity = try authority.identity("member")
            func write(_ text: String, _ name: String) throws {
                try Data(text.utf8).write(to: URL(filePath: "\(folder)/\(name)"))
            }
            try write(authority.certificate.pem, "etcd-ca.pem")
            try write(identity.chainPEM, "etcd.pem")
            try write(identity.privateKey.pem, "etcd.key")
            let key = Data((0..<32).map { _ in UInt8.random(in: 0...255) })
            try key.write(to: URL(filePath: "\(folder)/lockbox-device-key"))
            chmod("\(folder)/lockbox-device-key", 0o600)
            let (client, peer) = (try freePort(), try freePort())
            endpoint = "https://127.0.0.1:\(client)"
            process = try KeptProcess(
                [
                    Self.program!, "--name", "m", "--data-dir", "\(folder)/etcd", "--logger", "zap",
                    "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
                    "--listen-peer-urls", "http://127.0.0.1:\(peer)",
                    "--initial-advertise-peer-urls", "http://127.0.0.1:\(peer)",
                    "--initial-cluster", "m=http://127.0.0.1:\(peer)",
                    "--cert-file", "\(folder)/etcd.pem", "--key-file", "\(folder)/etcd.key",
                ],
                environment: ["PATH": "/usr/bin:/bin"],
                log: "\(folder)/etcd.log"
            )
            _ = try backend(timeLimit: .seconds(30)).prefixes()  // waits until it is ready
        }

        /// The variables that the example reads.
        var environment: [String: String] {
            [
                "ETCD_ENDPOINTS": endpoint, "ETCD_AUTHORITY": "\(folder)/etcd-ca.pem",
                "CREDENTIALS_DIRECTORY": folder,
            ]
        }

        func backend(timeLimit: Duration = .seconds(5)) throws -> SealedBackend {
            let storage = try EtcdStorage(
                endpoints: [endpoint],
                root: "/lockbox/server",
                security: .tls(caFile: "\(folder)/etcd-ca.pem"),
                timeLimit: timeLimit
            )
            return SealedBackend(storage: storage, deviceKey: .file("\(folder)/lockbox-device-key"))
        }
    }

    /// A port that nobody listens on now.
    private func freePort() throws -> Int {
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 ? getsockname(descriptor, $0, &length) : -1
            }
        }
        guard status == 0 else { throw Failure("no port") }
        return Int(UInt16(bigEndian: address.sin_port))
    }
#endif
