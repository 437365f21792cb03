#if Etcd
    import Foundation

    @testable import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore
    @_spi(Extensions) import LockboxTesting

    /// The defect of a ``DefectiveEtcdStorage``: `Proofs/Cluster/run --controls` shows that the checker sees each.
    enum EtcdDefect: String, CaseIterable {
        /// Items are read as one member has them, which may be behind the others.
        case serializableReads
        /// A commit that conflicts with another one is made again, whatever is there.
        case blindRetry
        /// A commit requires no mark, so it may take effect later, or twice.
        case withoutFence
    }

    /// A storage as one could also have written it.
    struct DefectiveEtcdStorage: ForwardingStorage, PagingStorage, WatchingStorage {
        private let storage: EtcdStorage
        private let defect: EtcdDefect
        /// One member alone.
        private let member: Gateway

        init(_ storage: EtcdStorage, _ defect: EtcdDefect) {
            self.storage = storage
            self.defect = defect
            let gateway = storage.gateway
            member = Gateway(
                endpoints: [gateway.endpoints[0]],
                security: gateway.security,
                user: nil,
                timeLimit: gateway.timeLimit
            )
        }

        var target: EtcdStorage { storage }

        func read(
            _ record: RecordName,
            atLeast minimum: Int,
            maximum: Int,
            _ body: (RecordContents) throws -> Void
        ) throws {
            guard defect == .serializableReads, record.namespace != nil else {
                return try storage.read(record, atLeast: minimum, maximum: maximum, body)
            }
            guard let found = try serializableRange(record).found.first else { return }
            var bytes = found.value
            let revision = storage.revision(of: found)
            try bytes.withUnsafeMutableBytes {
                try body(RecordContents(bytes: $0, revision: revision))
            }
        }

        private struct SerializableRequest: Request {
            let key: Data

            func write(to json: inout JSONWriter) {
                json.add("key", key)
                json.add("serializable", true)
            }
        }

        private func serializableRange(_ record: RecordName) throws -> RangeAnswer {
            let request = SerializableRequest(key: try storage.key(record))
            do { return try member.call("/v3/kv/range", request, until: member.deadline).answer } catch let
                failure as GatewayError
            { throw failure.error }
        }

        func commit(
            _ changes: [RecordChange],
            expecting: [RecordName: RecordRevision]
        ) throws -> CommitOutcome {
            if defect == .withoutFence { return try commitWithoutMark(changes, expecting) }
            let outcome = try storage.commit(changes, expecting: expecting)
            guard defect == .blindRetry, case .conflict = outcome else { return outcome }
            return try storage.commit(changes, expecting: [:])
        }

        private func commitWithoutMark(
            _ changes: [RecordChange],
            _ expecting: [RecordName: RecordRevision]
        ) throws -> CommitOutcome {
            let transaction = Transaction(
                compare: try expecting.map { Comparison(try storage.key($0.key), at: $0.value.numbers[0]) },
                success: try changes.map { change in
                    switch change {
                    case .put(let record, let bytes): .put(try storage.key(record), Data(bytes))
                    case .remove(let record): .delete(try storage.key(record))
                    }
                }
            )
            let gateway = storage.gateway
            do {
                let result: Gateway.Reply<TransactionAnswer> =
                    try gateway.call("/v3/kv/txn", transaction, until: gateway.deadline)
                return result.answer.isDone ? .committed : .conflict
            } catch let failure as GatewayError {
                guard failure.isInDoubt else { throw failure.error }
                let location = changes.first.map { storage.location(of: $0.record) } ?? storage.root
                return .unknown(LockboxError.outcomeUnknown(record: location, reason: "\(failure.error)"))
            }
        }
    }
#endif
