#if Etcd
    import Testing

    @testable import LockboxCore
    @_spi(Extensions) @testable import LockboxEtcd

    /// However a program prints a public value, it shows neither a secret nor a closure.
    struct PrintingTests {
        private let users = [
            EtcdUser(name: "app", password: "hunter2"), EtcdUser(name: "app") { "hunter2" },
            EtcdUser(name: "app") { throw Quoting(text: "hunter2") },
        ]

        /// Nobody is there to be asked.
        private func storage(_ user: EtcdUser) throws -> EtcdStorage {
            try EtcdStorage(
                endpoints: ["http://127.0.0.1:1"],
                root: "/shop",
                security: .insecurePlaintext,
                user: user,
                timeLimit: .milliseconds(100)
            )
        }

        @Test("Promise 7: no way of printing a public value shows a secret, a key or a closure")
        func noWayOfPrintingShowsASecret() throws {
            let storages = try users.map(storage)
            for storage in storages { _ = try? storage.namespaces() }
            let member = EtcdMember(
                endpoint: "http://127.0.0.1:1",
                version: "3.4.23",
                isLeader: true,
                databaseSize: 1,
                latency: .milliseconds(1)
            )
            let samples: [String: [Any]] = [
                "EtcdUser": users, "EtcdStorage": storages, "EtcdMember": [member],
                "EtcdSecurity": [EtcdSecurity.tls(caFile: "ca", certificateFile: "c", keyFile: "k")],
            ]
            expectPrintingHides(["hunter2"], in: samples)
        }

        /// An error of the app's own source may quote the password.
        @Test("Promise 7: secrets do not appear in error texts and descriptions")
        func theStatusOfMembersDoesNotQuoteThePasswordsSource() throws {
            let answers = try storage(users[2]).members(timeLimit: .milliseconds(100))
            let reason = "the source of the password failed with Quoting"
            #expect(
                answers == [
                    .failure(.notReachable(endpoint: .endpoint("http://127.0.0.1:1"), reason: reason))
                ]
            )
        }
    }
#endif
