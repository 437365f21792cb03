#if Etcd
    import CCurl
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    public import LockboxStore

    /// A subscription: a thread with a connection of its own, on which etcd names each change. If the connection ends, another
    /// one goes on at the same revision, so nothing is missed.
    final class Watch: Sendable {
        typealias Report = @Sendable (Result<RecordNotice, any Error>) -> Void

        private let storage: EtcdStorage
        private let folder: String
        private let report: Report
        private let canceled = Guarded(false)
        /// libcurl's handle, which ends the wait for the next message.
        private let multi: Multi

        /// After which a member is asked whether it is there.
        private let silence: Duration

        // Unchecked: one thread uses it, and others only call curl_multi_wakeup, which they may.
        private final class Multi: @unchecked Sendable {
            let handle: UnsafeMutableRawPointer = curl_multi_init()!
            deinit { curl_multi_cleanup(handle) }
        }

        /// A member says every ten minutes how far it has come, unless it is configured otherwise.
        private static let longest = Duration.seconds(900)
        /// A connection that lasts longer has not failed.
        private static let steady = Duration.seconds(5)
        /// Several times what etcd puts into a message (`--max-request-bytes`, in base64).
        private static let maximumLength = 8 << 20
        /// A change in a message has at least so many bytes.
        private static let minimumChange = 32
        /// A member that lags does not know the newest token yet.
        private static let maximumRefusals = 4

        init(
            _ storage: EtcdStorage,
            folder: String,
            silence: Duration = .seconds(120),
            _ report: @escaping Report
        ) {
            _ = Connection.ready
            self.silence = silence
            self.storage = storage
            self.folder = folder
            self.report = report
            multi = Multi()
        }

        /// Reports what happens from a revision on, until it is canceled.
        func start(from revision: UInt64) throws(LockboxError) {
            try detachThread { self.run(from: revision) }
        }

        func cancel() {
            canceled.withLock { $0 = true }
            curl_multi_wakeup(multi.handle)
        }

        private var isCanceled: Bool { canceled.withLock { $0 } }

        private func send(_ notice: Result<RecordNotice, any Error>) { if !isCanceled { report(notice) } }

        private func run(from revision: UInt64) {
            let gateway = storage.gateway
            let position = Position(next: revision)
            var endpoint = gateway.endpoint
            while !isCanceled {
                if position.failures > 0 { gateway.leave(endpoint) }
                endpoint = gateway.endpoint
                do {
                    switch try follow(endpoint, position) {
                    case .ended: break
                    case .older:
                        // A member may lag behind. If the whole cluster is older, or another one, what is watched would never
                        // come: that throws, unless a false message has said that more has happened.
                        let next = try storage.nextRevision()
                        if next < position.next { restart(position, at: next) }
                    case .compacted: restart(position, at: try storage.nextRevision())
                    case .denied(let reason):
                        return send(
                            .failure(LockboxError.accessDenied(endpoint: .endpoint(endpoint), reason: reason))
                        )
                    }
                } catch let error as LockboxError where Self.isFinal(error) {
                    return send(.failure(error))
                } catch {
                    position.failures = max(1, position.failures)
                }
                wait(position.failures)
            }
        }

        /// A read after the notice is at least as new as the first change that is watched.
        private func restart(_ position: Position, at next: UInt64) {
            position.next = next
            send(.success(.everything))
        }

        private static func isFinal(_ error: LockboxError) -> Bool {
            switch error {
            case .accessDenied, .rolledBack, .storeReplaced: true
            default: false
            }
        }

        /// The time until the next attempt: up to a second.
        private func wait(_ failures: Int) {
            if !isCanceled { curl_multi_poll(multi.handle, nil, 0, CInt(50 << min(failures, 4)), nil) }
        }

        // MARK: One connection

        private enum End {
            case ended
            /// The changes cannot be told any more, or not in a message that fits into memory.
            case compacted
            /// The member has not come as far as this subscription, or is one of another cluster.
            case older
            case denied(String)
        }

        /// How far a subscription has come.
        private final class Position {
            /// The revision to go on from.
            var next: UInt64
            /// The attempts in a row that brought nothing.
            var failures = 0
            /// The tokens in a row that were refused.
            var refusals = 0
            /// Whether the member has begun to watch.
            var isWatching = false

            init(next: UInt64) { self.next = next }
        }

        private func follow(_ endpoint: String, _ position: Position) throws -> End {
            let gateway = storage.gateway
            let token: String?
            // Until something is received.
            position.failures += 1
            position.isWatching = false
            do { token = try gateway.token(endpoint, until: gateway.deadline) } catch let failure
                as GatewayError
            {
                throw failure.error
            }
            let request = WatchRequest(
                Data("\(folder)/".utf8),
                to: EtcdStorage.end(of: folder),
                from: position.next
            )
            let connection = Connection(gateway.security)
            var end: End?
            var searched = 0
            connection.received.look = {
                // The answer to an error is no message.
                if connection.number(CURLINFO_RESPONSE_CODE) != 200 { return true }
                // Messages end at line feeds, not where packets do.
                let bytes = connection.received.bytes
                var begin = 0
                while end == nil, let line = bytes[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                    let text = bytes[begin..<line]
                    let elements = text.count / Self.minimumChange
                    let message = try? JSONReader.read(WatchMessage.self, text, elements: elements)
                    end = self.end(after: message, position, token)
                    begin = line + 1
                    searched = begin
                }
                if begin > 0 { connection.received.bytes = Data(bytes[begin...]) }
                searched = bytes.count - begin
                return end == nil
            }
            defer { connection.received.look = nil }
            let body = request.body
            let begin = ContinuousClock.now
            if !perform(connection, body, gateway.headers(token, limit: nil), endpoint) {
                position.failures = max(1, position.failures)
            } else if position.isWatching, .now - begin > Self.steady {
                position.failures = 0  // nothing had happened that it could have told
            }
            if let end { return end }
            if connection.received.isTooLong { return .compacted }
            let status = connection.number(CURLINFO_RESPONSE_CODE)
            if status == 200 || isCanceled { return .ended }
            let response = Connection.Response(status: status, body: connection.received.bytes)
            let failure = GatewayError(response, from: endpoint)
            if failure.remedy != .authenticate || !willRenew(token, position) { throw failure.error }
            return .ended
        }

        /// Whether another token may help instead of one that was refused: not if several have not.
        private func willRenew(_ token: String?, _ position: Position) -> Bool {
            position.refusals += 1
            if storage.gateway.user == nil || position.refusals > Self.maximumRefusals { return false }
            storage.gateway.forget(token)
            return true
        }

        private func end(after message: WatchMessage?, _ position: Position, _ token: String?) -> End? {
            guard let message, !message.isError else { return .ended }
            if message.isCompacted { return .compacted }
            if message.isCanceled {
                let willRenew = GatewayError.isOfToken(message.reason) && willRenew(token, position)
                return willRenew ? .ended : .denied(message.reason)
            }
            if let header = message.header, isOlder(header, position) { return .older }
            position.isWatching = true
            position.refusals = 0
            let changes = message.changes
            if !areNext(changes, message, position) {
                position.failures = max(1, position.failures)
                return .ended
            }
            if changes.isEmpty {
                // When it begins, what has happened until then may still follow. Later it says only what it has sent.
                if message.isCreated { return nil }
                position.next = max(position.next, (message.header?.revision ?? 0) + 1)
                position.failures = 0
                return nil
            }
            position.failures = 0
            let names = changes.map {
                String(decoding: $0.key.dropFirst(folder.utf8.count + 1), as: UTF8.self)
            }
            // The other changes of the last revision may be in the next fragment.
            let last = changes.last?.revision ?? 0
            position.next = max(position.next, message.isFragment ? last : last + 1)
            send(.success(.records(Set(names))))
            return nil
        }

        /// Whether changes are of the records that are watched, in order, and no older or newer than can be.
        private func areNext(_ changes: [KeyValue], _ message: WatchMessage, _ position: Position) -> Bool {
            let prefix = Data("\(folder)/".utf8)
            var last = position.next
            for change in changes {
                guard change.key.starts(with: prefix), change.revision >= last,
                    change.revision <= message.header?.revision ?? 0
                else { return false }
                last = change.revision
            }
            return true
        }

        private func isOlder(_ header: Header, _ position: Position) -> Bool {
            if let cluster = header.cluster, let known = storage.gateway.cluster, cluster != known {
                return true
            }
            return header.revision.map { $0 + 1 < position.next } ?? false
        }

        /// Returns false if the member no longer answers.
        private func perform(
            _ connection: Connection,
            _ body: [UInt8],
            _ headers: [String],
            _ endpoint: String
        ) -> Bool {
            curl_set_text(connection.handle, CURLOPT_URL, endpoint + "/v3/watch")
            curl_set_number(connection.handle, CURLOPT_TIMEOUT_MS, Self.longest.milliseconds)
            let connecting = storage.gateway.timeLimit / 5
            curl_set_number(connection.handle, CURLOPT_CONNECTTIMEOUT_MS, connecting.milliseconds)
            return connection.withRequest(body, headers, maximum: Self.maximumLength) {
                curl_multi_add_handle(multi.handle, connection.handle)
                defer { curl_multi_remove_handle(multi.handle, connection.handle) }
                var running: CInt = 0
                var asked = ContinuousClock.now
                let pause = CInt(min(1000, silence.milliseconds))
                repeat {
                    guard curl_multi_perform(multi.handle, &running) == CURLM_OK else { return true }
                    if running > 0 { curl_multi_poll(multi.handle, nil, 0, pause, nil) }
                    if .now - asked > silence {
                        if !isCanceled, !isThere(endpoint) { return false }
                        asked = .now
                    }
                } while running > 0 && !isCanceled
                return true
            }
        }

        /// A member that was stopped keeps its connections and says nothing. Any answer will do, also that it wants a token.
        private func isThere(_ endpoint: String) -> Bool {
            let gateway = storage.gateway
            var request = RangeRequest(Data("\(folder)/".utf8))
            request.isOnlyKeys = true
            let limit = gateway.timeLimit * 3 / 5
            let response = try? Connection(gateway.security).post(
                request.body,
                to: endpoint,
                path: "/v3/kv/range",
                headers: gateway.headers(nil, limit: limit * 4 / 5),
                limit: limit,
                connecting: gateway.timeLimit / 5
            )
            return response.map { $0.status < 500 } ?? false
        }
    }

    extension EtcdStorage {
        /// Begins to report changes of the records in a namespace. Needs a thread and a connection for each
        /// subscription. If the connection to one member ends, it goes on with another one, and nothing is missed. If
        /// etcd has been compacted meanwhile, anything may have changed (`RecordNotice.everything`).
        public func subscribe(
            to namespace: String,
            _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
        ) throws -> @Sendable () -> Void {
            _ = try key(RecordName(namespace: namespace, name: "_"))
            let watch = Watch(self, folder: "\(root)/i/\(namespace)", report)
            try watch.start(from: nextRevision())
            return { watch.cancel() }
        }
    }

    extension EtcdStorage {
        /// The revision of the next change in the cluster.
        func nextRevision() throws -> UInt64 {
            var request = RangeRequest(Data("\(root)/i/".utf8), to: Self.end(of: "\(root)/i"))
            request.isOnlyKeys = true
            request.limit = 1
            return try (range(request).header?.revision ?? 0) + 1
        }
    }
#endif
