#if Etcd
    import Lockbox
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// Answers that etcd does not give, or only when something is wrong.
    struct HostileMemberTests {
        private static func header(_ revision: String) -> String {
            #""header":{"cluster_id":"1","member_id":"2","revision":"\#(revision)"}"#
        }

        private func storage(_ member: FakeMember, user: EtcdUser? = nil) throws -> EtcdStorage {
            try EtcdStorage(
                endpoints: [member.endpoint],
                root: "/r",
                security: .insecurePlaintext,
                user: user,
                timeLimit: .seconds(1)
            )
        }

        private func watch(_ member: FakeMember, user: EtcdUser? = nil, _ notices: Notices) throws -> Watch {
            let watch = Watch(try storage(member, user: user), folder: "/r/i/n") { notices.receive($0) }
            try watch.start(from: 1)
            return watch
        }

        private func requests(_ member: FakeMember, are count: Int) -> Bool {
            let deadline = ContinuousClock.now + .seconds(20)
            while member.requests(of: "/v3/watch") < count {
                if ContinuousClock.now > deadline { return false }
                usleep(1000)
            }
            return true
        }

        /// A wrong certificate or a missing leader, not that the last attempt was cut off.
        @Test func whatFailedBeforeTheTimeWasOverIsTheReason() throws {
            let calls = Protected(0)
            let member = try FakeMember { _, _ in
                let number = calls.withLock { count in
                    count += 1
                    return count
                }
                if number > 1 { return FakeMember.Answer(lines: [], milliseconds: 3000) }
                let body = #"{"error":"e","code":14,"message":"etcdserver: no leader"}"#
                return FakeMember.Answer(status: "503 Service Unavailable", lines: [body])
            }
            defer { member.end() }
            let error = lockboxError {
                try EtcdStorage(
                    endpoints: [member.endpoint],
                    root: "/r",
                    security: .insecurePlaintext,
                    timeLimit: .seconds(1)
                ).namespaces()
            }
            #expect(
                error == .notReachable(endpoint: .endpoint(member.endpoint), reason: "etcdserver: no leader")
            )
            #expect(calls.withLock { $0 } > 1, "the control")
        }

        /// etcd's revisions are signed, and one more than the highest must exist.
        @Test(arguments: ["18446744073709551615", "9223372036854775808"])
        func aRevisionThatCannotBe(_ revision: String) throws {
            let header = Self.header(revision)
            let member = try FakeMember { _, _ in FakeMember.Answer(lines: ["{\(header)}"]) }
            defer { member.end() }
            expectError(.notReachable) { try storage(member).nextRevision() }
        }

        /// Its limit is not known. Lockbox's own would be wrong.
        @Test(arguments: [
            (3, "etcdserver: request is too large", E2BIG, "raise etcd's --max-request-bytes."),
            (8, "etcdserver: mvcc: database space exceeded", ENOSPC, "with etcdctl alarm disarm."),
        ])
        func aMemberForWhichARequestIsTooLarge(_ code: Int, _ text: String, _ errno: CInt, _ advice: String)
            throws
        {
            let refusal = #"{"code":\#(code),"message":"\#(text)"}"#
            let member = try FakeMember { _, _ in
                FakeMember.Answer(status: "400 Bad Request", lines: [refusal])
            }
            defer { member.end() }
            let record = RecordName(name: "record")
            let error = lockboxError {
                try storage(member).commit([.put(record, [1])], expecting: [:])
            }
            guard case .storageFailure("txn", .endpoint(member.endpoint), errno, _) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(error?.description.hasSuffix(advice) == true)
        }

        @Test func aRevisionThatCannotBeInASubscription() throws {
            let most = UInt64.max
            let change = #"{"kv":{"key":"L3IvaS9uL2E=","mod_revision":"\#(most)"}}"#
            let lines = [
                #"{"result":{\#(Self.header("\(most)")),"created":true}}"#,
                #"{"result":{\#(Self.header("5")),"events":[\#(change)]}}"#,
            ]
            for line in lines {
                let member = try FakeMember { _, _ in FakeMember.Answer(lines: [line]) }
                let notices = Notices()
                let watch = try watch(member, notices)
                #expect(requests(member, are: 2))
                watch.cancel()
                member.end()
                #expect(notices.received.names == [])
            }
        }

        /// A member that ends what it has begun is not asked twenty times a second.
        @Test func aSubscriptionThatEndsAtOnceWaitsLongerEachTime() throws {
            let created = #"{"result":{\#(Self.header("5")),"created":true}}"#
            let member = try FakeMember { _, _ in FakeMember.Answer(lines: [created]) }
            defer { member.end() }
            let begin = ContinuousClock.now
            let watch = try watch(member, Notices())
            defer { watch.cancel() }
            #expect(requests(member, are: 6))
            #expect(ContinuousClock.now - begin > .seconds(1))
        }

        /// So that it is not behind what has been compacted only because nothing has changed.
        @Test func aSubscriptionGoesOnWhereItsMemberSaysThatItIs() throws {
            let created = #"{"result":{\#(Self.header("5")),"created":true}}"#
            let progress = #"{"result":{\#(Self.header("50"))}}"#
            let bodies = Protected<[String]>([])
            let member = try FakeMember { _, body in
                let number = bodies.withLock { bodies in
                    bodies.append(body)
                    return bodies.count
                }
                return FakeMember.Answer(lines: number == 2 ? [created, progress] : [created])
            }
            defer { member.end() }
            let watch = try watch(member, Notices())
            defer { watch.cancel() }
            #expect(requests(member, are: 3))
            let revisions = bodies.withLock { bodies in
                bodies.prefix(3).map { body in
                    ["1", "51"].first { body.contains(#""start_revision":"\#($0)""#) }
                }
            }
            #expect(revisions == ["1", "1", "51"], "what follows the beginning may be older")
            #expect(bodies.withLock { $0.prefix(3).allSatisfy { $0.contains(#""progress_notify":true"#) } })
        }

        @Test func aMemberThatNoLongerAnswersIsLeft() throws {
            let created = #"{"result":{\#(Self.header("5")),"created":true}}"#
            let questions = Protected(0)
            let member = try FakeMember { path, _ in
                if path == "/v3/watch" { return FakeMember.Answer(lines: [created], milliseconds: 20_000) }
                let number = questions.withLock { count in
                    count += 1
                    return count
                }
                let isThere = number < 4
                return FakeMember.Answer(
                    status: isThere ? "400 Bad Request" : "503 Service Unavailable",
                    lines: ["{}"]
                )
            }
            defer { member.end() }
            let watch = Watch(try storage(member), folder: "/r/i/n", silence: .milliseconds(20)) { _ in }
            try watch.start(from: 1)
            defer { watch.cancel() }
            #expect(requests(member, are: 2))
            #expect(questions.withLock { $0 } >= 4)
        }

        enum Refusal: CaseIterable { case status, message }

        /// New tokens do not help, so it ends after some of them.
        @Test(arguments: Refusal.allCases)
        func aSubscriptionWhoseTokensAreAllRefusedEnds(_ refusal: Refusal) throws {
            let reason = "etcdserver: invalid auth token"
            let canceled = #"{"result":{\#(Self.header("5")),"created":true,"canceled":true,"#
            let member = try FakeMember { path, _ in
                if path == "/v3/auth/authenticate" { return FakeMember.Answer(lines: [#"{"token":"t"}"#]) }
                return switch refusal {
                case .status:
                    FakeMember.Answer(
                        status: "401 Unauthorized",
                        lines: [#"{"code":16,"message":"\#(reason)"}"#]
                    )
                case .message: FakeMember.Answer(lines: [canceled + #""cancel_reason":"\#(reason)"}}"#])
                }
            }
            defer { member.end() }
            let notices = Notices()
            let watch = try watch(member, user: EtcdUser(name: "u", password: "p"), notices)
            defer { watch.cancel() }
            #expect(notices.wait { $0.failures.map(\.code) == [.accessDenied] })
            #expect(member.requests(of: "/v3/auth/authenticate") > 1)
            #expect(member.requests(of: "/v3/watch") < 10)
        }
    }
#endif
