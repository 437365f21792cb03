#if Etcd
    import Lockbox
    import Foundation

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// A cluster of one or more members on this machine, which lasts as long as this object.
    final class EtcdCluster: Sendable {
        let members: [EtcdServer]
        let folder: String
        /// With which it can be reached.
        private let security: EtcdSecurity

        /// Three members, for tests that need nothing of their own. Each uses another root.
        static let shared: Result<EtcdCluster, any Error> = Result {
            let cluster = try EtcdCluster(members: 3)
            // Nothing else ends what is static.
            atexit { try? EtcdCluster.shared.get().end() }
            return cluster
        }

        init(
            members count: Int,
            options: EtcdServer.Options = EtcdServer.Options(),
            security: EtcdSecurity = .insecurePlaintext
        ) throws {
            let folder = NSTemporaryDirectory() + "lockbox-etcd-\(UInt64.random(in: .min ... .max))"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            self.folder = folder
            self.security = security
            members = try (0..<count).map { try EtcdServer(name: "m\($0)", folder: folder, options: options) }
            for member in members { try member.start(cluster: peers) }
            try waitUntilReady()
        }

        deinit { end() }

        private func end() {
            members.forEach { $0.end() }
            try? FileManager.default.removeItem(atPath: folder)
        }

        private var peers: String { members.map(\.peer).joined(separator: ",") }
        var endpoints: [String] { members.map(\.endpoint) }

        func restart(_ member: EtcdServer, token: String = "first") throws {
            try member.start(cluster: peers, token: token)
        }

        /// Ends a member, changes its files, and starts it again.
        func restart(_ member: EtcdServer, token: String = "first", after change: () throws -> Void) throws {
            member.end()
            try change()
            try restart(member, token: token)
            try waitUntilReady()
        }

        /// Runs `body`, and puts the member back to where it was before.
        func rollBack<Result>(_ member: EtcdServer, after body: () throws -> Result) throws -> Result {
            let (files, copy) = (FileManager.default, "\(folder)/copy")
            try restart(member) { try files.copyItem(atPath: member.folder, toPath: copy) }
            let result = try body()
            try restart(member) {
                try files.removeItem(atPath: member.folder)
                try files.moveItem(atPath: copy, toPath: member.folder)
            }
            return result
        }

        func storage(
            _ root: String = "/test",
            endpoints: [String]? = nil,
            security: EtcdSecurity? = nil,
            user: EtcdUser? = nil,
            timeLimit: Duration = .seconds(10)
        ) throws -> EtcdStorage {
            try EtcdStorage(
                endpoints: endpoints ?? self.endpoints,
                root: root,
                security: security ?? self.security,
                user: user,
                timeLimit: timeLimit
            )
        }

        func backend(_ root: String, timeLimit: Duration = .seconds(10)) throws -> SealedBackend {
            SealedBackend(
                storage: try storage(root, timeLimit: timeLimit),
                deviceKey: .closure { Self.deviceKey }
            )
        }

        static let deviceKey = [UInt8](repeating: 7, count: 32)

        /// A root that no other test has.
        static func root() -> String { "/test/\(UInt64.random(in: .min ... .max))" }

        func waitUntilReady() throws {
            for member in members {
                let storage = try storage("/ready", endpoints: [member.endpoint], timeLimit: .seconds(30))
                do { _ = try storage.namespaces() } catch {
                    let log = (try? String(contentsOfFile: "\(member.folder).log", encoding: .utf8)) ?? ""
                    print("\(member.name) does not answer:\n\(log.suffix(2000))")
                    throw error
                }
            }
        }

        /// The member that leads now.
        func leader() throws -> EtcdServer {
            let deadline = ContinuousClock.now + .seconds(20)
            while ContinuousClock.now < deadline {
                for member in members {
                    guard let status = try? status(of: member), let leader = status.leader, leader != "0"
                    else {
                        continue
                    }
                    if leader == status.header?.member { return member }
                }
                usleep(100_000)
            }
            throw CocoaError(.featureUnsupported)
        }

        func followers() throws -> [EtcdServer] {
            let leader = try leader()
            return members.filter { $0 !== leader }
        }

        private struct Status: Decodable {
            struct Header: Decodable {
                let member: String?
                enum CodingKeys: String, CodingKey { case member = "member_id" }
            }
            let header: Header?
            let leader: String?
        }

        private func status(of member: EtcdServer) throws -> Status {
            let connection = Connection(security)
            let response = try connection.post(
                Array("{}".utf8),
                to: member.endpoint,
                path: "/v3/maintenance/status",
                headers: [],
                limit: .seconds(1),
                connecting: .milliseconds(500)
            )
            return try JSONDecoder().decode(Status.self, from: response.body)
        }
    }
#endif
