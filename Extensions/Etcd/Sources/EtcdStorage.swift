#if Etcd
    public import LockboxCore
    import LockboxPlatform
    @_spi(Extensions) public import LockboxStore

    /// Stores the records of a ``SealedBackend`` in a cluster of etcd.
    ///
    /// ```swift
    /// let storage = try EtcdStorage(
    ///     endpoints: ["https://a.example:2379", "https://b.example:2379", "https://c.example:2379"],
    ///     root: "/lockbox/shop",
    ///     security: .tls(caFile: "/etc/shop/ca.pem")
    /// )
    /// let backend = SealedBackend(storage: storage, deviceKey: .credential())
    /// ```
    ///
    /// Every read is linearizable, every commit one transaction. A call that fails at one endpoint, or is answered with something
    /// that etcd cannot say, is tried at the others, within the time limit. The device key does not belong in the cluster: ``DeviceKeySource/stored`` is refused.
    ///
    /// Errors have these meanings:
    ///
    /// - ``LockboxError/notReachable(endpoint:reason:)``: no member answered in time, or the cluster has no leader.
    /// - ``LockboxError/accessDenied(endpoint:reason:)``: wrong user or password, or a role without permission.
    /// - ``LockboxError/outcomeUnknown(record:reason:wasMade:)``: the cluster did not say in time whether it has made a change. The next
    ///   call of this storage first settles that change: it learns whether it was made, and prevents it from taking effect
    ///   later.
    /// - ``LockboxError/valueTooLarge(size:limit:)``: more than 1 MiB in a record.
    /// - ``LockboxError/rolledBack(record:reason:)``: the cluster has an older state than before, as after a restored snapshot.
    ///   One call throws it. Later calls use the state that is there, as the earlier answers may have been the false ones.
    /// - ``LockboxError/storeReplaced(location:)``: another cluster answers than before. One call throws it, too.
    /// - ``LockboxError/storageFailure(operation:path:errno:explanation:)``: with `ENOSPC`, etcd's quota is used up; with `E2BIG`,
    ///   the cluster is configured for smaller requests (`--max-request-bytes`).
    public final class EtcdStorage: Sendable {
        /// The path of the store: every key in etcd begins with it and a slash.
        public let root: String

        /// The members' client addresses, without a trailing slash.
        public var endpoints: [String] { gateway.endpoints }

        let gateway: Gateway
        let fence: Fence
        let known = KnownRecords()

        /// Creates a storage. Connects to nothing yet.
        ///
        /// - Parameters:
        ///   - endpoints: The client addresses of the cluster's members, such as `https://etcd.example:2379`. One that
        ///     fails is passed over while another one answers.
        ///   - root: The path of the store, such as `/lockbox/shop`. Different stores need different roots, none of which
        ///     is inside another.
        ///   - security: How connections are protected.
        ///   - user: The user of etcd, if the cluster has authentication. Its role must allow reading and writing every
        ///     key that begins with the root and a slash.
        ///   - timeLimit: The time limit of a call, retries and all pages of a list included, but not the time of closures
        ///     that a list is passed to. At least 100 milliseconds; a shorter one is raised to
        ///     that.
        /// - Throws: ``LockboxError/notReachable(endpoint:reason:)`` if an endpoint's scheme does not fit `security`, or
        ///   `endpoints` is empty; ``LockboxError/invalidKey(reason:)`` if the root is empty.
        public init(
            endpoints: [String],
            root: String,
            security: EtcdSecurity = .tls(),
            user: EtcdUser? = nil,
            timeLimit: Duration = .seconds(5)
        ) throws(LockboxError) {
            var root = root[...]
            while root.last == "/" { root.removeLast() }
            if root.isEmpty { throw LockboxError.invalidKey(reason: "the root of a store in etcd is empty") }
            self.root = String(root)
            gateway = Gateway(
                endpoints: try Self.checked(endpoints, security),
                security: security,
                user: user,
                timeLimit: max(timeLimit, .milliseconds(100))
            )
            fence = Fence(gateway: gateway, folder: "\(root)/f/")
        }

        private static func checked(_ endpoints: [String], _ security: EtcdSecurity) throws(LockboxError)
            -> [String]
        {
            if endpoints.isEmpty {
                throw LockboxError.notReachable(endpoint: "etcd", reason: "no endpoint was given")
            }
            var result: [String] = []
            for endpoint in endpoints {
                if endpoint.contains("@") {
                    // Not named, as it may contain the password.
                    let reason = "the address contains a user; pass it as user instead"
                    throw LockboxError.notReachable(endpoint: "an endpoint of etcd", reason: reason)
                }
                guard endpoint.hasPrefix(security.scheme),
                    endpoint.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
                else {
                    let reason = "the address of an endpoint must begin with \(security.scheme)"
                    throw LockboxError.notReachable(endpoint: .endpoint(endpoint), reason: reason)
                }
                result.append(endpoint.hasSuffix("/") ? String(endpoint.dropLast()) : endpoint)
            }
            return result
        }

        // MARK: Keys in etcd

        // <root>/k/<name>: records outside any namespace
        // <root>/i/<namespace>/<name>: all others
        // <root>/f/<random>: see `Fence`

        func key(_ record: RecordName) throws(LockboxError) -> Data {
            let parts = [record.namespace, record.name].compactMap { $0 }
            guard parts.allSatisfy({ !$0.isEmpty && !$0.utf8.contains(UInt8(ascii: "/")) }) else {
                throw LockboxError.invalidKey(reason: "a record's name is empty or contains a slash")
            }
            return Data(path(record).utf8)
        }

        func path(_ record: RecordName) -> String {
            guard let namespace = record.namespace else { return "\(root)/k/\(record.name)" }
            return "\(root)/i/\(namespace)/\(record.name)"
        }

        /// The first key after all that begin with a path and a slash.
        static func end(of path: String) -> Data { Data("\(path)0".utf8) }  // "0" comes after "/"

        func revision(of found: KeyValue) -> RecordRevision {
            // From a restored snapshot, etcd counts revisions again. So the bytes are part of it.
            found.value.withUnsafeBytes { bytes in
                let hash = RecordRevision(of: bytes, length: bytes.count).numbers
                return RecordRevision(found.revision, gateway.cluster ?? 0, hash[0], hash[1])
            }
        }
    }

    extension EtcdStorage: PagingStorage, WatchingStorage {
        /// A record has at most 1 MiB, a commit at most 126 changes with 1.25 MiB. Commits are transactions. Other machines share them.
        ///
        /// They fit etcd's defaults of 1.5 MiB for a request (`--max-request-bytes`) and 128 operations for a transaction
        /// (`--max-txn-ops`).
        public var limits: StorageLimits {
            StorageLimits(
                maximumRecordLength: 1 << 20,
                maximumChanges: 126,
                maximumCommitLength: Self.maximumCommitLength,
                isTransactional: true,
                isOnThisDevice: false,
                conflictTime: gateway.timeLimit * 6
            )
        }

        /// etcd takes requests of 1.5 MiB unless it is configured otherwise.
        static let maximumCommitLength = 1_310_720

        /// The comparisons, or the operations, of a transaction.
        static let maximumOperations = 128

        /// Returns how errors refer to a record.
        public func location(of record: RecordName) -> String { "etcd:\(path(record))" }
    }

    extension EtcdStorage: CustomStringConvertible, CustomReflectable {
        /// The endpoints and the root.
        public var description: String { "EtcdStorage(\(gateway.list), \(root))" }

        /// Keeps `dump(_:)` from showing the contents.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }

    extension EtcdStorage {
        /// Compacts the cluster's history up to the current revision. Removes the replaced and removed values of this store
        /// and **of everybody else who uses the cluster**.
        ///
        /// Use it after a rotation, if nothing else in the cluster needs its history. The old values can then no longer be
        /// read with any revision. Their bytes stay in the free pages of each member's file until it is defragmented
        /// (`etcdctl defrag`), and in snapshots.
        ///
        /// Current values are kept. A change sequence that lags behind reports ``LockboxChange/everything``.
        ///
        /// - Throws: ``LockboxError/notReachable(endpoint:reason:)`` or ``LockboxError/accessDenied(endpoint:reason:)``.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { _ in }.")
        public func compact() throws {
            do {
                let deadline = gateway.deadline
                let now: RangeAnswer = try gateway.call(
                    "/v3/kv/range",
                    RangeRequest(Data("\(root)/".utf8)),
                    until: deadline
                ).answer
                guard let revision = now.header?.revision else {
                    throw GatewayError.notReachable(
                        gateway.list,
                        "its answer has no revision",
                        isInDoubt: false
                    )
                }
                let request = CompactionRequest(revision: revision)
                do {
                    let _: Done = try gateway.call("/v3/kv/compaction", request, until: deadline)
                        .answer
                } catch let failure as GatewayError where failure.cause == .compacted {
                    return  // another process was faster
                }
            } catch let failure as GatewayError { throw failure.error }
        }
    }

    extension EtcdStorage {
        /// Makes all of the changes if the records have the expected revisions, otherwise none. This is one
        /// transaction, which is sent again if the answer is lost, and takes effect at most once.
        public func commit(
            _ changes: [RecordChange],
            expecting: [RecordName: RecordRevision]
        ) throws -> CommitOutcome {
            try checkLimits(changes, expecting)
            let deadline = gateway.deadline
            do {
                try fence.settle(until: deadline)
                while true {
                    let mark = try fence.takeMark(until: deadline)
                    // Known since the mark was made.
                    if isOfAnotherCluster(expecting) {
                        fence.giveBack(mark)
                        return .conflict
                    }
                    if let outcome = try commit(changes, expecting, mark, until: deadline) { return outcome }
                }
            } catch let failure as GatewayError {
                // Until a commit is sent, only marks were.
                throw failure.error
            }
        }

        private func checkLimits(_ changes: [RecordChange], _ expecting: [RecordName: RecordRevision]) throws
        {
            var length = 0
            for case .put(_, let bytes) in changes {
                if bytes.count > limits.maximumRecordLength {
                    throw LockboxError.valueTooLarge(size: bytes.count, limit: limits.maximumRecordLength)
                }
                length += bytes.count
            }
            if length > limits.maximumCommitLength {
                throw LockboxError.valueTooLarge(size: length, limit: limits.maximumCommitLength)
            }
            // One operation and one comparison are the fence's.
            if changes.count > limits.maximumChanges || expecting.count >= Self.maximumOperations {
                throw LockboxError.tooLarge(for: .other(location(of: changes)))
            }
        }

        private func isOfAnotherCluster(_ expecting: [RecordName: RecordRevision]) -> Bool {
            guard let cluster = gateway.cluster else { return false }
            return expecting.values.contains { $0 != .absent && $0.numbers[1] != cluster }
        }

        private func location(of changes: [RecordChange]) -> String {
            changes.first.map { location(of: $0.record) } ?? "etcd:\(root)"
        }

        // MARK: With a mark

        /// Returns nil if the mark is gone, and nothing was changed.
        private func commit(
            _ changes: [RecordChange],
            _ expecting: [RecordName: RecordRevision],
            _ mark: Fence.Mark,
            until deadline: ContinuousClock.Instant
        ) throws -> CommitOutcome? {
            let token = Fence.token()
            let transaction = try transaction(changes, expecting, mark, token)
            let result: Gateway.Reply<TransactionAnswer>
            do { result = try gateway.call("/v3/kv/txn", transaction, until: deadline) } catch let failure
                as GatewayError
                where failure.isInDoubt
            {
                fence.doubt(mark)
                return unknown(changes, failure.error)
            } catch {
                fence.giveBack(mark)
                throw error
            }
            return outcome(of: result, changes, mark, token, isConditional: !expecting.isEmpty)
        }

        private func outcome(
            of result: Gateway.Reply<TransactionAnswer>,
            _ changes: [RecordChange],
            _ mark: Fence.Mark,
            _ token: Data,
            isConditional: Bool
        ) -> CommitOutcome? {
            func isCommitted(at revision: UInt64?) -> CommitOutcome {
                var mark = mark
                mark.revision = revision ?? 0
                fence.giveBack(mark)
                return .committed
            }
            if result.answer.isDone { return isCommitted(at: result.answer.header?.revision) }
            let found = result.answer.ranges.first?.found.first
            if let found, found.value == token { return isCommitted(at: found.revision) }
            if found?.revision == mark.revision, !isConditional {
                // Nothing but the mark was compared.
                fence.doubt(mark)
                let reason = "etcd refuses the change, though nothing speaks against it"
                return .unknown(LockboxError.outcomeUnknown(record: location(of: changes), reason: reason))
            }
            if found?.revision == mark.revision {
                // If it was sent more than once, an earlier copy could still take effect when expectations hold again.
                if result.isRepeated { fence.doubt(mark) } else { fence.giveBack(mark) }
                return .conflict
            }
            // The mark's lease has ended, or another client has removed it.
            if !result.isRepeated { return nil }
            let reason = "etcd did not answer in time, and what it has recorded of the change is gone"
            return .unknown(LockboxError.outcomeUnknown(record: location(of: changes), reason: reason))
        }

        private func unknown(_ changes: [RecordChange], _ error: LockboxError) -> CommitOutcome {
            let reason: String
            switch error {
            case .notReachable(let endpoint, let text), .accessDenied(let endpoint, let text):
                reason = "\(endpoint): \(text)"
            default: reason = error.description
            }
            return .unknown(LockboxError.outcomeUnknown(record: location(of: changes), reason: reason))
        }

        private func transaction(
            _ changes: [RecordChange],
            _ expecting: [RecordName: RecordRevision],
            _ mark: Fence.Mark,
            _ token: Data
        ) throws -> Transaction {
            var transaction = Transaction(compare: [Comparison(mark.key, at: mark.revision)])
            for (record, revision) in expecting {
                let key = try key(record)
                let value = known.value(of: record, at: revision)
                transaction.compare.append(
                    value.map { Comparison(key, is: $0) } ?? Comparison(key, at: revision.numbers[0])
                )
            }
            for change in changes {
                switch change {
                case .put(let record, let bytes):
                    transaction.success.append(.put(try key(record), Data(bytes)))
                case .remove(let record): transaction.success.append(.delete(try key(record)))
                }
            }
            transaction.success.append(.put(mark.key, token, lease: mark.lease))
            transaction.failure = [.range(RangeRequest(mark.key))]
            return transaction
        }
    }
#endif
