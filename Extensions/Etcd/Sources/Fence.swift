#if Etcd
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform

    /// Makes sure that a commit takes effect once or never, and that a storage can find out which.
    ///
    /// A commit that was answered with an error, or not at all, can take effect seconds later: a member passes it on when the
    /// leader that was paused returns. It can also be received twice. So every commit requires that a *mark*, a key of this
    /// storage's own, was last written at a known revision, and writes its own token there:
    ///
    /// - A copy of the commit that arrives later finds another revision and does nothing. No revision of a key ever returns,
    ///   also not if the key is deleted and made anew.
    /// - In doubt, the same commit may be sent again. If it is refused and the mark has its token, it has taken effect.
    /// - To end the doubt, the mark is deleted. After that the commit has taken effect, or never will.
    ///
    /// Marks have a lease, so that those of processes that have ended are removed after a day. Nothing depends on it: a missing
    /// mark refuses every commit that requires it.
    final class Fence: Sendable {
        struct Mark: Sendable {
            let key: Data
            /// When it was last written.
            var revision: UInt64
            let lease: UInt64
            let made: ContinuousClock.Instant
        }

        private struct State: Sendable {
            var unused: [Mark] = []
            /// The marks of commits that may still take effect.
            var doubts: [Data] = []
            var lease: (id: UInt64, made: ContinuousClock.Instant)?
        }

        private let gateway: Gateway
        private let folder: String
        private let state = Guarded(State())

        /// A mark is used for half the time that etcd keeps it.
        private static let lifetime = Duration.seconds(86_400)

        init(gateway: Gateway, folder: String) {
            self.gateway = gateway
            self.folder = folder
        }

        static func token() -> Data { Data((0..<16).map { _ in UInt8.random(in: .min ... .max) }) }

        // MARK: Marks

        /// Returns a mark that no other commit uses meanwhile.
        func takeMark(until deadline: ContinuousClock.Instant) throws -> Mark {
            while let mark = state.withLock({ $0.unused.popLast() }) {
                if .now - mark.made < Self.lifetime / 2 { return mark }
            }
            do { return try makeMark(until: deadline) } catch let failure as GatewayError
                where failure.cause == .leaseNotFound
            {
                state.withLock { $0.lease = nil }
                return try makeMark(until: deadline)
            }
        }

        private func makeMark(until deadline: ContinuousClock.Instant) throws -> Mark {
            let lease = try lease(until: deadline)
            let name = Self.token().hexadecimal
            let key = Data((folder + name).utf8)
            // Only if it is not there: a late copy must not write over the token of a commit.
            let answer: TransactionAnswer = try gateway.call(
                "/v3/kv/txn",
                Transaction(
                    compare: [Comparison(key, at: 0)],
                    success: [.put(key, Data(), lease: lease)],
                    failure: [.range(RangeRequest(key))]
                ),
                until: deadline
            ).answer
            let found = answer.ranges.first?.found.first?.revision
            guard let revision = answer.isDone ? answer.header?.revision : found else {
                throw GatewayError.notReachable(
                    gateway.list,
                    "its answer is not that of etcd's gRPC gateway",
                    isInDoubt: false
                )
            }
            return Mark(key: key, revision: revision, lease: lease, made: .now)
        }

        func giveBack(_ mark: Mark) { state.withLock { $0.unused.append(mark) } }

        private func lease(until deadline: ContinuousClock.Instant) throws -> UInt64 {
            if let lease = state.withLock({ $0.lease }), .now - lease.made < Self.lifetime / 4 {
                return lease.id
            }
            let seconds = UInt64(Self.lifetime / .seconds(1))
            let answer: LeaseAnswer = try gateway.call(
                "/v3/lease/grant",
                LeaseRequest(seconds: seconds),
                until: deadline
            ).answer
            guard let id = answer.lease, id > 0 else {
                throw GatewayError.notReachable(gateway.list, "its answer has no lease ID", isInDoubt: false)
            }
            state.withLock { $0.lease = (id, .now) }
            return id
        }

        // MARK: Doubts

        /// A commit that required this mark may still take effect. The next call settles that first.
        func doubt(_ mark: Mark) { state.withLock { $0.doubts.append(mark.key) } }

        /// Makes sure that no commit of this storage that is in doubt takes effect from now on.
        ///
        /// - Throws: ``GatewayError`` if the cluster cannot be asked.
        func settle(until deadline: ContinuousClock.Instant) throws {
            while true {
                let doubts = state.withLock { Array($0.doubts.prefix(EtcdStorage.maximumOperations)) }
                if doubts.isEmpty { return }
                do {
                    let _: Gateway.Reply<TransactionAnswer> = try gateway.call(
                        "/v3/kv/txn",
                        Transaction(success: doubts.map { .delete($0) }),
                        until: deadline
                    )
                } catch let failure as GatewayError {
                    throw GatewayError(failure.error, failure.remedy, cause: failure.cause, isInDoubt: false)
                }
                state.withLock { state in state.doubts.removeAll { doubts.contains($0) } }
            }
        }
    }
#endif
