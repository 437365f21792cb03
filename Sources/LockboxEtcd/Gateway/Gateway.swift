#if Etcd
    import LockboxCore
    import LockboxPlatform
    import LockboxSodium

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
            var cluster: UInt64?
            /// The highest revision that any answer had.
            var revision: UInt64 = 0
        }

        // `Connection` is not Sendable: one thread at a time takes it out of here.
        private let state: Protected<UncheckedState>
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
            state = Protected(UncheckedState())
        }

        private func withState<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
            try state.withLock { try body(&$0.state) }
        }

        var deadline: ContinuousClock.Instant { .now + timeLimit }

        /// The cluster that answers. Nil before the first answer.
        var cluster: UInt64? { withState { $0.cluster } }

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
            var last = GatewayError.notReachable(list, Connection.noAnswer, isInDoubt: false)
            var older: GatewayError?
            var hasAuthenticated = false
            var round = 0
            while deadline - .now > .milliseconds(5) {
                for _ in endpoints where deadline - .now > .milliseconds(5) {
                    let used = endpoint
                    do {
                        let attempt: Reply<A> = try attempt(path, body, to: used, until: deadline)
                        return (attempt.answer, attempt.isRepeated || isInDoubt)
                    } catch let failure as GatewayError {
                        isInDoubt = isInDoubt || failure.isInDoubt
                        // An attempt that the time limit cut off says less than one that failed before.
                        last = (failure.isTimeout ? last : failure).inDoubt(isInDoubt)
                        if case .rolledBack = failure.error { older = failure }
                        switch failure.remedy {
                        case .giveUp: throw last
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
            throw older?.inDoubt(isInDoubt) ?? last
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
            _ body: [UInt8],
            to endpoint: String,
            until deadline: ContinuousClock.Instant
        ) throws -> Reply<A> {
            let (known, floor) = withState { ($0.token, $0.revision) }
            let token = try known ?? user.map { try authenticate($0, endpoint, until: deadline) }
            let isRepeated: Bool
            let response: Connection.Response
            do {
                (response, isRepeated) = try send(path, body, to: endpoint, token, until: deadline)
            } catch let failure as GatewayError where failure.remedy == .authenticate {
                withState { if $0.token == token { $0.token = nil } }
                throw failure
            }
            guard let answer = try? JSONReader.read(A.self, response.body) else {
                throw GatewayError.notReachable(
                    endpoint,
                    "its answer is not that of etcd's gRPC gateway",
                    isInDoubt: true
                )
            }
            try check(answer.header, endpoint, floor)
            return (answer, isRepeated)
        }

        private func send(
            _ path: String,
            _ body: [UInt8],
            to endpoint: String,
            _ token: String?,
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
                    connecting: min(rest, timeLimit / 5)
                )
            } catch {
                throw GatewayError.notReachable(endpoint, error.reason, isInDoubt: error.isSent)
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

        // MARK: What answers have to be

        /// - Throws: ``GatewayError`` if another cluster answers, or this one as it was in the past.
        private func check(_ header: Header?, _ endpoint: String, _ floor: UInt64) throws {
            guard let header, let cluster = header.cluster else {
                throw GatewayError.notReachable(
                    endpoint,
                    "its answer is not that of etcd's gRPC gateway",
                    isInDoubt: true
                )
            }
            let revision = header.revision ?? 0
            let isSame = withState { state in
                if state.cluster == nil { state.cluster = cluster }
                guard state.cluster == cluster else { return false }
                state.revision = max(state.revision, revision)
                return true
            }
            if !isSame {
                let error = LockboxError.storeReplaced(location: endpoint)
                throw GatewayError(error, .giveUp, isInDoubt: true)
            }
            if revision < floor {
                let reason = "the cluster's revision is \(revision), and \(floor) was seen before"
                // Elsewhere: older versions can give an old state after a pause of a member.
                throw GatewayError(
                    .rolledBack(record: endpoint, reason: reason),
                    .tryElsewhere,
                    isInDoubt: true
                )
            }
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
                (response, _) = try send("/v3/auth/authenticate", body, to: endpoint, nil, until: deadline)
            } catch let failure as GatewayError {
                // The request that needs the token has not been sent.
                throw GatewayError(
                    failure.error,
                    failure.remedy == .tryElsewhere ? .tryElsewhere : .giveUp,
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
