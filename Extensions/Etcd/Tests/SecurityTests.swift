#if Etcd
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    @Suite(.enabled(if: EtcdServer.isInstalled && Certificates.canBeMade, "etcd or openssl is not installed"))
    final class TLSTests {
        private let folder =
            NSTemporaryDirectory() + "lockbox-certificates-\(UInt64.random(in: .min ... .max))"

        deinit { try? FileManager.default.removeItem(atPath: folder) }

        private func cluster(
            _ certificates: Certificates,
            requiresClientCertificate: Bool = false
        ) throws -> EtcdCluster {
            var options = EtcdServer.Options()
            options.certificates = certificates
            options.requiresClientCertificate = requiresClientCertificate
            // Whether it runs, not whether it is trusted.
            let security = EtcdSecurity.insecureTLSWithoutServerVerification(
                certificateFile: certificates.client,
                keyFile: certificates.clientKey
            )
            return try EtcdCluster(members: 1, options: options, security: security)
        }

        private func storage(_ cluster: EtcdCluster, _ security: EtcdSecurity) throws -> EtcdStorage {
            try cluster.storage(security: security, timeLimit: .seconds(1))
        }

        private func expectRefusal(_ cluster: EtcdCluster, _ security: EtcdSecurity, _ what: Comment) throws {
            let storage = try storage(cluster, security)
            expectError(.notReachable, what) { try storage.namespaces() }
            let record = RecordName(name: "record")
            expectError(.notReachable, what) {
                try storage.commit([.put(record, [1])], expecting: [:])
            }
        }

        @Test func onlyAServerWithACertificateOfTheAuthorityIsUsed() throws {
            let certificates = try Certificates(in: "\(folder)/right")
            let other = try Certificates(in: "\(folder)/other")
            let cluster = try cluster(certificates)
            let storage = try storage(cluster, .tls(caFile: certificates.authority))
            let record = RecordName(name: "record")
            #expect(try storage.commit([.put(record, [1])], expecting: [:]).isCommitted)
            #expect(try storage.read([record], maximum: 10)[record]?.bytes == [1])
            try expectRefusal(cluster, .tls(caFile: other.authority), "another authority")
            try expectRefusal(cluster, .tls(), "the system's authorities")
            try expectRefusal(cluster, .tls(caFile: "\(folder)/none.pem"), "a file that is missing")
            let plaintext = cluster.endpoints.map { $0.replacingOccurrences(of: "https", with: "http") }
            expectError(.notReachable) {
                try cluster.storage(endpoints: plaintext, security: .tls(caFile: certificates.authority))
            }
            expectError(.notReachable) { try cluster.storage(security: .insecurePlaintext) }
        }

        @Test func aCertificateForAnotherNameIsRefused() throws {
            let certificates = try Certificates(in: folder, server: "DNS:other.example")
            let cluster = try cluster(certificates)
            try expectRefusal(cluster, .tls(caFile: certificates.authority), "another name")
        }

        @Test func anExpiredCertificateIsRefused() throws {
            let certificates = try Certificates(in: folder, days: 0)
            sleep(1)
            let cluster = try cluster(certificates)
            try expectRefusal(cluster, .tls(caFile: certificates.authority), "expired")
        }

        @Test func aClientCertificateIsUsed() throws {
            let certificates = try Certificates(in: folder)
            let cluster = try cluster(certificates, requiresClientCertificate: true)
            let security = EtcdSecurity.tls(
                caFile: certificates.authority,
                certificateFile: certificates.client,
                keyFile: certificates.clientKey
            )
            #expect(try storage(cluster, security).namespaces().isEmpty)
            try expectRefusal(cluster, .tls(caFile: certificates.authority), "no client certificate")
        }
    }

    @Suite(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
    struct UserTests {
        private let cluster: EtcdCluster
        private let record = RecordName(name: "record")

        init() throws {
            cluster = try EtcdCluster(members: 1)
            let gateway = try cluster.storage().gateway
            func call(_ path: String, _ request: some Request) throws {
                _ =
                    try gateway.call("/v3/auth/\(path)", request, until: gateway.deadline)
                    as Gateway.Reply<Done>
            }
            struct Grant: Request {
                struct Permission: Request {
                    func write(to json: inout JSONWriter) {
                        json.add("permType", "READWRITE")
                        json.add("key", Data("/shop/".utf8))
                        json.add("range_end", Data("/shop0".utf8))
                    }
                }
                func write(to json: inout JSONWriter) {
                    json.add("name", "shop")
                    json.add("perm", Permission())
                }
            }
            for (user, role) in [("root", "root"), ("app", "shop")] {
                try call("user/add", TextRequest(["name": user, "password": "\(user)-password"]))
                try call("role/add", TextRequest(["name": role]))
                try call("user/grant", TextRequest(["user": user, "role": role]))
            }
            try call("role/grant", Grant())
            try call("enable", TextRequest([:]))
        }

        private func storage(_ root: String = "/shop", _ user: String = "app", _ password: String? = nil)
            throws
            -> EtcdStorage
        {
            let user = EtcdUser(name: user, password: password ?? "\(user)-password")
            return try cluster.storage(root, user: user, timeLimit: .seconds(5))
        }

        private func expectDenied(_ storage: EtcdStorage, _ what: Comment) {
            expectError(.accessDenied, what) { try storage.read([record], maximum: 10) }
            expectError(.accessDenied, what) {
                try storage.commit([.put(record, [1])], expecting: [:])
            }
        }

        @Test func aUserMayUseItsRootOnly() throws {
            let storage = try storage()
            #expect(try storage.commit([.put(record, [1])], expecting: [:]).isCommitted)
            #expect(try storage.read([record], maximum: 10)[record]?.bytes == [1])
            #expect(try storage.namespaces().isEmpty)
            expectDenied(try self.storage("/other"), "another root")
            expectDenied(try self.storage("/shop", "app", "wrong"), "a wrong password")
            expectDenied(try self.storage("/shop", "nobody"), "a user that is unknown")
            expectDenied(try cluster.storage("/shop", timeLimit: .seconds(5)), "no user")
        }

        @Test func aTokenThatIsNoLongerValidIsRenewed() throws {
            let storage = try storage()
            #expect(try storage.commit([.put(record, [1])], expecting: [:]).isCommitted)
            // Tokens are in the member's memory.
            cluster.members[0].end()
            try cluster.restart(cluster.members[0])
            #expect(try storage.read([record], maximum: 10)[record]?.bytes == [1])
            cluster.members[0].end()
            try cluster.restart(cluster.members[0])
            #expect(try storage.commit([.put(record, [2])], expecting: [:]).isCommitted)
        }

        /// etcd refuses the token of a subscription with an answer that says success.
        @Test func aSubscriptionRenewsItsToken() throws {
            let password = Protected("app-password")
            let user = EtcdUser(name: "app") { password.withLock { $0 } }
            let storage = try cluster.storage("/shop", user: user, timeLimit: .seconds(5))
            let notices = Notices()
            let cancel = try storage.subscribe(to: "n") { notices.receive($0) }
            defer { cancel() }
            // A member that is started again can have the tokens that it had. Those from before a change of the password are
            // gone.
            let root = try self.storage("/shop", "root").gateway
            let change = TextRequest(["name": "app", "password": "new-password"])
            let _: Gateway.Reply<Done> = try root.call("/v3/auth/user/changepw", change, until: root.deadline)
            password.withLock { $0 = "new-password" }
            cluster.members[0].end()
            try cluster.restart(cluster.members[0])
            let other = try self.storage("/shop", "app", "new-password")
            let item = RecordName(namespace: "n", name: "item")
            #expect(try other.commit([.put(item, [1])], expecting: [:]).isCommitted)
            #expect(notices.wait { $0.names == ["item"] })
            #expect(notices.received.failures == [])
        }

        @Test func aSubscriptionWithoutPermissionEnds() throws {
            let notices = Notices()
            let watch = Watch(try storage("/other"), folder: "/other/i/n") { notices.receive($0) }
            try watch.start(from: 1)
            defer { watch.cancel() }
            #expect(notices.wait { $0.failures.map(\.code) == [.accessDenied] })
        }

        @Test func noDescriptionShowsThePassword() throws {
            let user = EtcdUser(name: "app", password: "a-password")
            let storage = try storage("/shop", "app", "a-password")
            var dumped = "\(user) \(storage)"
            dump(user, to: &dumped)
            dump(storage, to: &dumped)
            #expect(!dumped.contains("a-password"))
            let error = #expect(throws: LockboxError.self) {
                try EtcdStorage(endpoints: ["https://app:a-password@host"], root: "/shop")
            }
            #expect(error.map { "\($0)".contains("a-password") } == false)
            do { _ = try storage.namespaces() } catch { #expect(!"\(error)".contains("a-password")) }
        }
    }
#endif
