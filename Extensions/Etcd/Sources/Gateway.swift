#if Etcd
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    @_spi(Extensions) import LockboxStore

    /// Sends requests to the members of a cluster, one after the other until one answers, within a time limit.
    final class Gateway: Sendable {
        let endpoints: [String]
        let user: EtcdUser?
        let timeLimit: Duration
        let security: EtcdSecurity
        /// Another number in a forked child.
        private let process: @Sendable () -> Int

        private struct State {
            var connections: [Connection] = []
            /// The process that has opened them.
            var process = 0
            /// The endpoint that answered last.
            var preferred = 0
            var token: String?
            /// The cluster's history, or nil before the first answer.
            var history: History?
        }

        // `Connection` is not Sendable: one thread at a time takes it out of here.
        private let state: Guarded<UncheckedState>
        private struct UncheckedState: @unchecked Sendable { var state = State() }

        private static let maximumConnections = 8

        init(
            endpoints: [String],
            security: EtcdSecurity,
            user: EtcdUser?,
            timeLimit: Duration,
            process: @escaping @Sendable () -> Int = { ForkGuard.generation }
        ) {
            self.process = process
            self.endpoints = endpoints
            self.security = security
            self.user = user
            self.timeLimit = timeLimit
            state = Guarded(UncheckedState())
        }

        private func withState<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
            try state.withLock { try body(&$0.state) }
        }

        var deadline: ContinuousClock.Instant { .now + timeLimit }

        /// The cluster that answers, or nil before the first answer.
        var cluster: UInt64? { withState { $0.history?.cluster } }

        /// An answer, and whether the request may have been received more than once.
        typealias Reply<A> = (answer: A, isRepeated: Bool)

        /// - Parameter request: May be sent more than once.
        /// - Throws: ``GatewayError``.
        func call<A: Answer>(
            _ path: String,
            _ request: some Request,
            until deadline: ContinuousClock.Instant
        ) throws
            -> Reply<A>
        {
            let body = request.body
            var isInDoubt = false
            let none = LockboxError.notReachable(endpoint: .endpoint(list), reason: Connection.noAnswer)
            var last = GatewayError(none, .tryElsewhere, cause: .timeout, isInDoubt: false)
            var hasAuthenticated = false
            var round = 0
            // The members whose answers contradict what others have said before.
            var (contradicting, contradiction): (Set<String>, GatewayError?) = ([], nil)
            func areMost() -> Bool { contradicting.count * 2 > endpoints.count }
            // A member that lags gets a second chance.
            while deadline - .now > .milliseconds(5), round < 2 || !areMost() {
                for _ in endpoints where deadline - .now > .milliseconds(5) {
                    let used = endpoint
                    do {
                        let attempt: Reply<A> = try attempt(path, request, body, to: used, until: deadline)
                        if !areMost() { return (attempt.answer, attempt.isRepeated || isInDoubt) }
                        // Then it is this member that contradicts the others.
                        isInDoubt = true
                        leave(used)
                    } catch let failure as GatewayError {
                        isInDoubt = isInDoubt || failure.isInDoubt
                        // An attempt that the time limit cut off says less than one that failed before.
                        last = (failure.cause == .timeout ? last : failure).inDoubt(isInDoubt)
                        if failure.contradiction != nil {
                            contradicting.insert(used)
                            contradiction = failure
                        }
                        switch failure.remedy {
                        case .giveUp:
                            // Another one may not refuse the next call.
                            leave(used)
                            throw last
                        case .authenticate:
                            guard user != nil, !hasAuthenticated else { throw last }
                            hasAuthenticated = true
                        case .tryElsewhere: leave(used)
                        }
                    } catch  where isInDoubt {
                        // The source of the password has failed, after a request that may have had an effect.
                        throw last
                    }
                }
                pause(round, until: deadline)
                round += 1
            }
            // That other members do not answer is no reason to be silent about this.
            guard let contradiction else { throw last }
            withState { $0.history = contradiction.contradiction }
            throw contradiction.inDoubt(isInDoubt)
        }

        var list: String { endpoints.joined(separator: ",") }

        /// 50 ms, then twice as long each time, up to a second; never the same for two processes.
        private func pause(_ round: Int, until deadline: ContinuousClock.Instant) {
            let longest = min(.seconds(1), Duration.milliseconds(50) * (1 << min(round, 5)))
            let pause = min(longest * Double.random(in: 0.5...1), deadline - .now)
            if pause > .zero { usleep(UInt32(pause / .microseconds(1))) }
        }

        // MARK: One attempt

        private func attempt<A: Answer>(
            _ path: String,
            _ request: some Request,
            _ body: [UInt8],
            to endpoint: String,
            until deadline: ContinuousClock.Instant
        ) throws -> Reply<A> {
            let (known, history) = withState { ($0.token, $0.history) }
            let token = try known ?? user.map { try authenticate($0, endpoint, until: deadline) }
            let isRepeated: Bool
            let response: Connection.Response
            do {
                let maximum = request.maximumLength
                (response, isRepeated) = try send(path, body, to: endpoint, token, maximum, until: deadline)
            } catch let failure as GatewayError where failure.remedy == .authenticate {
                withState { if $0.token == token { $0.token = nil } }
                throw failure
            }
            let elements = request.maximumElements
            guard let answer = try? JSONReader.read(A.self, response.body, elements: elements),
                let header = answer.header, let cluster = header.cluster
            else {
                throw GatewayError.notReachable(
                    endpoint,
                    "its answer is not that of etcd's gRPC gateway",
                    isInDoubt: true
                )
            }
            guard request.accepts(answer) else {
                let reason = "its answer does not fit the request, or contradicts itself"
                throw GatewayError.notReachable(endpoint, reason, isInDoubt: true)
            }
            let answered = History(cluster: cluster, revision: header.revision ?? 0)
            try check(answered, endpoint, after: history)
            return (answer, isRepeated)
        }

        private func send(
            _ path: String,
            _ body: [UInt8],
            to endpoint: String,
            _ token: String?,
            _ maximum: Int,
            until deadline: ContinuousClock.Instant
        ) throws -> Reply<Connection.Response> {
            let rest = deadline - .now
            // etcd's own limit is shorter, so that its answer, which may say more, arrives within ours.
            let limit = min(rest, timeLimit * 3 / 10 + .milliseconds(300))
            let headers = headers(token, limit: limit * 4 / 5)
            let connection = takeConnection()
            defer {
                withState {
                    if $0.connections.count < Self.maximumConnections { $0.connections.append(connection) }
                }
            }
            let response: Connection.Response
            do {
                response = try connection.post(
                    body,
                    to: endpoint,
                    path: path,
                    headers: headers,
                    limit: limit,
                    connecting: min(rest, timeLimit / 5),
                    maximum: maximum
                )
            } catch {
                throw GatewayError(
                    .notReachable(endpoint: .endpoint(endpoint), reason: error.reason),
                    error.cause == .tooLong ? .giveUp : .tryElsewhere,
                    cause: error.cause,
                    isInDoubt: error.isSent
                )
            }
            if response.status == 200 { return (response, connection.mayHaveResent) }
            // If it was sent twice, this is the answer to the second.
            throw GatewayError(response, from: endpoint).inDoubt(connection.mayHaveResent)
        }

        private func takeConnection() -> Connection {
            let process = process()
            let connection = withState { state in
                if state.process != process {
                    // After a fork they are the parent's too. They are left open, as closing one would end it for the parent.
                    for connection in state.connections { _ = Unmanaged.passRetained(connection) }
                    state.connections = []
                    state.process = process
                }
                return state.connections.popLast()
            }
            return connection ?? Connection(security)
        }

        func headers(_ token: String?, limit: Duration?) -> [String] {
            // No "Expect", which costs a round trip. A member without a leader says so at once.
            var headers = ["Content-Type: application/json", "Expect:", "Grpc-Metadata-Hasleader: true"]
            if let limit { headers.append("Grpc-Timeout: \(limit.milliseconds)m") }
            if let token { headers.append("Authorization: \(token)") }
            return headers
        }

        // MARK: Checks of answers

        /// - Parameter history: The history known when the request was sent.
        /// - Throws: ``GatewayError`` if another cluster answers, or this one as it was in the past.
        private func check(_ answered: History, _ endpoint: String, after history: History?) throws {
            let error: LockboxError
            if let history, history.cluster != answered.cluster {
                error = .storeReplaced(location: endpoint)
            } else if let history, answered.revision < history.revision {
                let (now, before) = (answered.revision, history.revision)
                let reason = "the cluster's revision is \(now), and \(before) was seen before"
                error = .rolledBack(record: .endpoint(endpoint), reason: reason)
            } else {
                withState { state in
                    // Unless it has become another one meanwhile.
                    if let now = state.history, now != history, now.cluster != answered.cluster { return }
                    let revision = max(answered.revision, state.history?.revision ?? 0)
                    state.history = History(cluster: answered.cluster, revision: revision)
                }
                return
            }
            // Elsewhere: older versions can give an old state after a pause of a member.
            var failure = GatewayError(error, .tryElsewhere, isInDoubt: true)
            failure.contradiction = answered
            throw failure
        }

        // MARK: Tokens

        /// The endpoint that answered last.
        var endpoint: String { endpoints[withState { $0.preferred }] }

        /// From now on the next endpoint is tried first, unless another thread has seen to that already.
        func leave(_ failing: String) {
            withState { state in
                if endpoints[state.preferred] == failing {
                    state.preferred = (state.preferred + 1) % endpoints.count
                }
            }
        }

        /// Returns the token to call etcd with, or nil for none.
        func token(_ endpoint: String, until deadline: ContinuousClock.Instant) throws -> String? {
            try withState { $0.token } ?? user.map { try authenticate($0, endpoint, until: deadline) }
        }

        func forget(_ token: String?) { withState { if $0.token == token { $0.token = nil } } }

        private func authenticate(
            _ user: EtcdUser,
            _ endpoint: String,
            until deadline: ContinuousClock.Instant
        ) throws
            -> String
        {
            let request = AuthenticationRequest(name: user.name, password: try user.password())
            let body = request.body
            let response: Connection.Response
            do {
                let path = "/v3/auth/authenticate"
                (response, _) = try send(
                    path,
                    body,
                    to: endpoint,
                    nil,
                    request.maximumLength,
                    until: deadline
                )
            } catch let failure as GatewayError {
                // The request that needs the token has not been sent.
                throw GatewayError(
                    failure.error,
                    failure.remedy == .tryElsewhere ? .tryElsewhere : .giveUp,
                    cause: failure.cause,
                    isInDoubt: false
                )
            }
            let answer = try? JSONReader.read(AuthenticationAnswer.self, response.body)
            guard let token = answer?.token, !token.contains(where: \.isNewline) else {
                throw GatewayError.notReachable(
                    endpoint,
                    "its answer is not that of etcd's gRPC gateway",
                    isInDoubt: false
                )
            }
            withState { $0.token = token }
            return token
        }
    }
#endif
