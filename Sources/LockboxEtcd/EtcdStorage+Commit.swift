#if Etcd
    import LockboxCore
    import LockboxPlatform
    public import LockboxSealed

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
                throw LockboxError.storageFailure(operation: "txn", path: location(of: changes), errno: E2BIG)
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
            // The mark's lease has ended, or somebody has removed it.
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
