#if Etcd
    import Foundation
    import Testing

    import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// A member that tries to hang a call, to fill memory, or to make the process refuse the other members.
    struct HostileAnswerTests {
        private static func header(_ revision: UInt64, cluster: Int = 1) -> String {
            #""header":{"cluster_id":"\#(cluster)","member_id":"2","revision":"\#(revision)"}"#
        }

        private static func item(_ key: String, value: String = "", at revision: UInt64 = 3) -> String {
            let (key, value) = (Data(key.utf8).base64EncodedString(), Data(value.utf8).base64EncodedString())
            return #"{"key":"\#(key)","value":"\#(value)","mod_revision":"\#(revision)"}"#
        }

        /// - Parameter count: How many there are, if not as many as it has.
        private static func range(
            _ items: [String],
            count: Int? = nil,
            more: Bool = false,
            at revision: UInt64 = 9
        )
            -> String
        {
            let rest =
                #""kvs":[\#(items.joined(separator: ","))],"more":\#(more),"count":"\#(count ?? items.count)""#
            return "{\(header(revision)),\(rest)}"
        }

        private func storage(_ members: FakeMember..., timeLimit: Duration = .seconds(1)) throws
            -> EtcdStorage
        {
            try EtcdStorage(
                endpoints: members.map(\.endpoint),
                root: "/r",
                security: .insecurePlaintext,
                timeLimit: timeLimit
            )
        }

        private func member(_ answer: @escaping @Sendable (Int) -> String) throws -> FakeMember {
            let count = Protected(0)
            return try FakeMember { _, _ in
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                return FakeMember.Answer(lines: [answer(number)])
            }
        }

        private func expectEnd(_ call: () throws -> Void, _ location: SourceLocation = #_sourceLocation) {
            let begin = ContinuousClock.now
            let error = lockboxError(call)
            #expect(error?.code == .notReachable, sourceLocation: location)
            #expect(ContinuousClock.now - begin < .seconds(4), sourceLocation: location)
        }

        private func expectListsEnd(_ storage: EtcdStorage, _ location: SourceLocation = #_sourceLocation) {
            let discard: ([(name: String, record: Record?)]) -> Void = { _ in }
            expectEnd({ try storage.forEachName(in: "n", waitingForCommits: false) { _ in } }, location)
            expectEnd(
                { try storage.forEachPage(of: "n", maximum: 100, waitingForCommits: false, discard) },
                location
            )
            expectEnd({ _ = try storage.namespaces() }, location)
        }

        // MARK: Time

        /// Each page by itself is as it should be.
        @Test func aListWithoutAnEndEndsInTime() throws {
            let member = try member { number in
                let digits = String(String(number + 1_000_000).dropFirst())
                return Self.range([Self.item("/r/i/n/\(digits)")], count: 1000, more: true)
            }
            defer { member.end() }
            let storage = try storage(member)
            expectEnd { try storage.forEachName(in: "n", waitingForCommits: false) { _ in } }
            let namespaces = try self.member { number in
                let digits = String(String(number + 1_000_000).dropFirst())
                return Self.range([Self.item("/r/i/\(digits)/a")], count: 1000, more: true)
            }
            defer { namespaces.end() }
            expectEnd { _ = try self.storage(namespaces).namespaces() }
        }

        /// An app may take its time with each page.
        @Test func theTimeOfTheCallerDoesNotCount() throws {
            let member = try member { number in
                Self.range([Self.item("/r/i/n/\(number)")], count: number == 4 ? 1 : 2, more: number < 4)
            }
            defer { member.end() }
            let names = Protected<[String]>([])
            try storage(member).forEachName(in: "n", waitingForCommits: false) { name in
                usleep(400_000)
                names.withLock { $0.append(name) }
            }
            #expect(names.withLock { $0 } == ["1", "2", "3", "4"])
        }

        @Test func aHistoryThatIsAlwaysCompactedEndsInTime() throws {
            let refusal = #"{"code":11,"message":"etcdserver: mvcc: required revision has been compacted"}"#
            let member = try FakeMember { _, body in
                body.contains(#""revision""#)
                    ? FakeMember.Answer(status: "400 Bad Request", lines: [refusal])
                    : FakeMember.Answer(lines: [Self.range([Self.item("/r/i/n/a")], count: 2, more: true)])
            }
            defer { member.end() }
            let storage = try storage(member)
            expectEnd { try storage.forEachName(in: "n", waitingForCommits: false) { _ in } }
        }

        // MARK: Unrequested data

        @Test(arguments: [
            // Other keys, other orders, and other numbers of them.
            range([item("/r/i/o/a")]), range([item("/r/i/m/a")]), range([item("/r/k/keybag")]),
            range([item("")]),
            range([item("/r/i/n/b"), item("/r/i/n/a")]), range([item("/r/i/n/a"), item("/r/i/n/a")]),
            range([item("/r/i/n/a")], count: 2), range([item("/r/i/n/a")], count: 0), range([], count: 1),
            range([], count: 1, more: true), range([item("/r/i/n/a")], more: true),
            range((0..<1001).map { item("/r/i/n/\($0 + 1000)") }),
            // Revisions that cannot be.
            range([item("/r/i/n/a", at: 0)]), range([item("/r/i/n/a", at: 10)]),
            // Nothing that a page may be.
            "", "{}", "[]", String(repeating: "[", count: 100_000), #"{"header":{}}"#,
        ])
        func aPageThatCannotBe(_ answer: String) throws {
            let member = try member { _ in answer }
            defer { member.end() }
            let storage = try storage(member, timeLimit: .milliseconds(200))
            expectEnd { try storage.forEachName(in: "n", waitingForCommits: false) { _ in } }
        }

        private static let record = RecordName(namespace: "n", name: "a")

        private static func transaction(_ responses: [String], done: Bool = true, at revision: UInt64 = 9)
            -> String
        {
            "{\(header(revision)),\"succeeded\":\(done),\"responses\":[\(responses.joined(separator: ","))]}"
        }

        private static func found(_ items: [String], count: Int? = nil) -> String {
            #"{"response_range":{"kvs":[\#(items.joined(separator: ","))],"count":"\#(count ?? items.count)"}}"#
        }

        /// None of them means that the record is absent.
        @Test(arguments: [
            transaction([]), transaction(["{}"]), transaction([#"{"response_put":{}}"#]),
            transaction([found([item("/r/i/n/b")])]), transaction([found([], count: 1)]),
            transaction([found([]), found([])]), transaction([found([])], done: false),
            transaction([found([item("/r/i/n/a"), item("/r/i/n/a")])]), "{\(header(9))}",
        ])
        func anAbsenceThatIsNone(_ answer: String) throws {
            let member = try member { _ in answer }
            defer { member.end() }
            let storage = try storage(member, timeLimit: .milliseconds(200))
            expectEnd { _ = try storage.read([Self.record], maximum: 100) }
        }

        @Test(arguments: [
            range([item("/r/i/n/b")]), range([], count: 1), range([item("/r/i/n/a"), item("/r/i/n/a")]),
            range([], more: true),
        ])
        func anAbsenceOfOneThatIsNone(_ answer: String) throws {
            let member = try member { _ in answer }
            defer { member.end() }
            let storage = try storage(member, timeLimit: .milliseconds(200))
            expectEnd { try storage.read(Self.record, atLeast: 1, maximum: 100) { _ in } }
        }

        /// A commit writes at a new revision, and answers for each of its operations.
        @Test(arguments: [
            transaction([#"{"response_put":{}}"#, #"{"response_put":{}}"#], at: 5), transaction([], at: 9),
            transaction([#"{"response_put":{}}"#], at: 9), transaction([found([]), found([])], at: 9),
        ])
        func aCommitThatCannotHaveBeenMade(_ answer: String) throws {
            let lease = "{\(Self.header(4)),\"ID\":\"7\",\"TTL\":\"86400\"}"
            let mark = Self.transaction([#"{"response_put":{}}"#], at: 5)
            let transactions = Protected(0)
            let member = try FakeMember { path, _ in
                if path == "/v3/lease/grant" { return FakeMember.Answer(lines: [lease]) }
                let number = transactions.withLock { count in
                    count += 1
                    return count
                }
                return FakeMember.Answer(lines: [number == 1 ? mark : answer])
            }
            defer { member.end() }
            let storage = try storage(member)
            let outcome = try storage.commit([.put(Self.record, [1])], expecting: [:])
            guard case .unknown(let error) = outcome else {
                return #expect(Bool(false), "\(outcome)") as Void
            }
            #expect(error.code == .outcomeUnknown)
            #expect(transactions.withLock { $0 } > 1, "the control")
        }

        /// A commit that expects nothing has no conflict. A removal would take one for a success.
        @Test func aRefusalWithoutAReason() throws {
            let lease = "{\(Self.header(4)),\"ID\":\"7\",\"TTL\":\"86400\"}"
            let member = try FakeMember { path, body in
                if path == "/v3/lease/grant" { return FakeMember.Answer(lines: [lease]) }
                let key = body.split(separator: #"{"key":""#).dropFirst().first?.prefix { $0 != "\"" } ?? ""
                let mark = #"{"key":"\#(key)","mod_revision":"5"}"#
                let isMark = !body.contains("request_delete_range")
                let answer =
                    isMark
                    ? Self.transaction([#"{"response_put":{}}"#], at: 5)
                    : Self.transaction([Self.found([mark])], done: false)
                return FakeMember.Answer(lines: [answer])
            }
            defer { member.end() }
            func commit(_ expecting: [RecordName: RecordRevision]) throws -> CommitOutcome {
                try storage(member).commit([.remove(Self.record)], expecting: expecting)
            }
            guard case .unknown = try commit([:]) else { return #expect(Bool(false)) as Void }
            guard case .conflict = try commit([Self.record: .absent]) else {
                return #expect(Bool(false)) as Void
            }
        }

        // MARK: Memory

        enum Flood: String, CaseIterable { case elements, body, spaces, head }

        /// It is cut off, long before the time is over.
        @Test(arguments: Flood.allCases)
        func aFloodIsCutOff(_ flood: Flood) throws {
            let member = try FakeMember { _, _ in
                var answer = FakeMember.Answer(lines: [#"{"kvs":["#])
                switch flood {
                case .elements: answer.endless.body = "{},"
                case .body: answer.endless.body = #""aaaaaaaaaaaaaaaa","#
                case .spaces: answer.endless.body = " "
                case .head: answer.endless.head = "X-Filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"
                }
                return answer
            }
            defer { member.end() }
            let storage = try storage(member, timeLimit: .seconds(60))
            let connection = Connection(.insecurePlaintext)
            #expect(throws: Connection.Failure.self) {
                try connection.post(
                    [],
                    to: member.endpoint,
                    path: "/",
                    headers: [],
                    limit: .seconds(60),
                    connecting: .seconds(5)
                )
            }
            #expect(connection.received.bytes.count <= 65_536)
            if flood == .head { return }
            let error = lockboxError { try storage.read(Self.record, atLeast: 1, maximum: 100) { _ in } }
            #expect(error == .notReachable(endpoint: .endpoint(member.endpoint), reason: Connection.tooLong))
        }

        /// Each of the elements takes forty bytes and more, of three.
        @Test func elementsThatWereNotAskedForAreNotKept() {
            let body = Data("{\"kvs\":[\(String(repeating: "{},", count: 10_000_000)){}]}".utf8)
            #expect(throws: JSONReader.Malformed.self) {
                try JSONReader.read(RangeAnswer.self, body, elements: 1000)
            }
            #expect(throws: JSONReader.Malformed.self) {
                try JSONReader.read(
                    TransactionAnswer.self,
                    Data(#"{"responses":[{"response_range":{"kvs":[{},{}]}}]}"#.utf8),
                    elements: 2
                )
            }
        }

        /// libcurl would unpack what it was not asked to.
        @Test func aCompressedAnswerIsNotUnpacked() throws {
            let member = try FakeMember { _, _ in
                FakeMember.Answer(lines: ["\u{1f}"], head: ["Content-Encoding: gzip"])
            }
            defer { member.end() }
            let storage = try storage(member, timeLimit: .milliseconds(200))
            expectEnd { _ = try storage.namespaces() }
        }

        @Test func anotherAddressIsNotFollowed() throws {
            let other = try member { _ in Self.range([]) }
            let member = try FakeMember { _, _ in
                FakeMember.Answer(
                    status: "307 Temporary Redirect",
                    lines: [],
                    head: ["Location: \(other.endpoint)/"]
                )
            }
            defer { for member in [member, other] { member.end() } }
            let storage = try storage(member, timeLimit: .milliseconds(200))
            expectEnd { _ = try storage.namespaces() }
            #expect(other.requests(of: "/") == 0)
        }

        // MARK: Contradictory answers

        private static func empty(_ revision: UInt64, cluster: Int = 1) -> String {
            "{\(header(revision, cluster: cluster))}"
        }

        private static let (high, most): (UInt64, UInt64) = (1 << 40, UInt64(Int64.max) - 1)

        /// Of one member, whose first or second answer is a false one.
        @Test(arguments: [
            ([empty(high), empty(5)], LockboxError.Code.rolledBack),
            ([empty(5), empty(most), empty(6)], .rolledBack),
            ([empty(5, cluster: 7), empty(5)], .storeReplaced),
            ([empty(5), empty(5, cluster: 7), empty(5, cluster: 7), empty(6)], .storeReplaced),
        ])
        func aFalseAnswerIsAnErrorOfOneCall(_ answers: [String], _ code: LockboxError.Code) throws {
            let member = try member { answers[min($0, answers.count) - 1] }
            defer { member.end() }
            let storage = try storage(member)
            let codes = (0..<6).map { _ in lockboxError { _ = try storage.namespaces() }?.code }
            #expect(codes.contains(code), "it is noticed")
            #expect(codes.suffix(3) == [nil, nil, nil], "and forgotten")
        }

        /// Whether the liar goes on, or is switched off.
        @Test(arguments: [true, false], [empty(high), empty(5, cluster: 7)])
        func ofThreeMembersOneLies(_ goesOn: Bool, _ lie: String) throws {
            let asked = Protected(0)
            let liar = try FakeMember { _, _ in
                let number = asked.withLock { count in
                    count += 1
                    return count
                }
                let refusal = FakeMember.Answer(
                    status: "503 Service Unavailable",
                    lines: [#"{"code":14,"message":"no"}"#]
                )
                return goesOn || number == 1 ? FakeMember.Answer(lines: [lie]) : refusal
            }
            let others = try (0..<2).map { _ in try member { _ in Self.empty(5) } }
            defer { for member in others + [liar] { member.end() } }
            let storage = try storage(liar, others[0], others[1])
            _ = try storage.namespaces()
            storage.gateway.leave(liar.endpoint)  // like after any failure
            #expect(
                [.rolledBack, .storeReplaced].contains(lockboxError { _ = try storage.namespaces() }?.code)
            )
            for _ in 0..<3 { #expect(throws: Never.self) { try storage.namespaces() } }
        }

        /// A lie that others can contradict at once is no error at all.
        @Test(arguments: [empty(4), empty(9, cluster: 7)])
        func aContradictionIsAskedAboutElsewhere(_ lie: String) throws {
            let liar = try member { $0 == 1 ? Self.empty(5) : lie }
            let others = try (0..<2).map { _ in try member { _ in Self.empty(5) } }
            defer { for member in others + [liar] { member.end() } }
            let storage = try storage(liar, others[0], others[1])
            for _ in 0..<5 { #expect(throws: Never.self) { try storage.namespaces() } }
        }

        /// The next call asks another member.
        @Test func aMemberThatRefusesEverythingIsLeft() throws {
            let refusal = #"{"code":7,"message":"etcdserver: permission denied"}"#
            let liar = try FakeMember { _, _ in FakeMember.Answer(status: "403 Forbidden", lines: [refusal]) }
            let other = try member { _ in Self.empty(5) }
            defer { for member in [liar, other] { member.end() } }
            let storage = try storage(liar, other)
            expectError(.accessDenied) { try storage.namespaces() }
            #expect(throws: Never.self) { try storage.namespaces() }
        }

        // MARK: Subscriptions

        private static func event(_ key: String, at revision: UInt64, of now: UInt64 = 9) -> String {
            #"{"result":{\#(header(now)),"events":[{"kv":\#(item(key, at: revision))}]}}"#
        }

        /// - Returns: Its reports until it has begun anew twice, and where it began.
        private func notices(_ lines: [String], current: UInt64 = 9) throws -> (Notices.Received, [String]) {
            let bodies = Protected<[String]>([])
            let member = try FakeMember { path, body in
                if path != "/v3/watch" { return FakeMember.Answer(lines: [Self.empty(current)]) }
                let count = bodies.withLock { bodies in
                    bodies.append(body)
                    return bodies.count
                }
                let created = #"{"result":{\#(Self.header(current)),"created":true}}"#
                return FakeMember.Answer(lines: count == 1 ? lines : [created])
            }
            defer { member.end() }
            let notices = Notices()
            let watch = Watch(try storage(member), folder: "/r/i/n") { notices.receive($0) }
            try watch.start(from: 4)
            defer { watch.cancel() }
            #expect(notices.wait { _ in member.requests(of: "/v3/watch") >= 4 })
            return (notices.received, bodies.withLock { $0 })
        }

        @Test(arguments: [
            event("/r/i/o/a", at: 5), event("/r/i/n", at: 5), event("", at: 5), event("/r/i/n/a", at: 3),
            event("/r/i/n/a", at: 10),
            "{\"result\":{\(header(9)),\"events\":[\(String(repeating: "{},", count: 999)){}]}}",
        ])
        func aChangeThatCannotBeIsNotReported(_ line: String) throws {
            let (received, bodies) = try notices([line])
            #expect(received.names == [] && received.everything == 0 && received.failures == [])
            #expect(bodies.allSatisfy { $0.contains(#""start_revision":"4""#) })
        }

        /// Nothing would come from there on until the cluster has come as far.
        @Test(arguments: [event("/r/i/n/a", at: high, of: high), "{\"result\":{\(header(high))}}"])
        func aChangeFromTheFutureIsTakenBack(_ line: String) throws {
            let (received, bodies) = try notices([line])
            #expect(received.everything == 1 && received.failures == [])
            #expect(bodies.last?.contains(#""start_revision":"10""#) == true)
        }

        /// The rest of the last revision may be missing.
        @Test func afterAFragmentItsRevisionIsAskedForAgain() throws {
            let line = Self.event("/r/i/n/a", at: 7).replacing(
                "\"events\"",
                with: "\"fragment\":true,\"events\""
            )
            let (received, bodies) = try notices([line])
            #expect(received.names == ["a"])
            #expect(bodies[1].contains(#""start_revision":"7""#))
        }

        @Test func aMessageWithoutAnEndIsCutOff() throws {
            let member = try FakeMember { path, _ in
                if path != "/v3/watch" { return FakeMember.Answer(lines: [Self.empty(9)]) }
                return FakeMember.Answer(lines: [], endless: ("", " "))
            }
            defer { member.end() }
            let notices = Notices()
            let watch = Watch(try storage(member), folder: "/r/i/n") { notices.receive($0) }
            try watch.start(from: 4)
            defer { watch.cancel() }
            #expect(notices.wait { $0.everything >= 1 }, "what was in it may be anything")
        }
    }
#endif
