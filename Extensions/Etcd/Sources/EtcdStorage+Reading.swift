#if Etcd
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    public import LockboxStore

    extension EtcdStorage {
        /// Calls a closure with the bytes of a record, unless it is absent.
        public func read(
            _ record: RecordName,
            atLeast minimum: Int,
            maximum: Int,
            _ body: (RecordContents) throws -> Void
        ) throws {
            guard let found = try range(RangeRequest(key(record))).found.first else { return }
            try check(found, record, maximum)
            var bytes = found.value
            let revision = revision(of: found)
            known.remember(record, found.value, revision)
            try bytes.withUnsafeMutableBytes {
                try body(RecordContents(bytes: $0, revision: revision))
            }
        }

        /// Returns several records, all as of one revision of the cluster. Absent ones are left out.
        public func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
            let names = Dictionary(try records.map { (try key($0), $0) }) { first, _ in first }
            let keys = Array(names.keys)
            let found = try reading { deadline in
                try asOfOneRevision { revision in
                    var found: [KeyValue] = []
                    for start in stride(from: 0, to: keys.count, by: Self.maximumOperations) {
                        let part = keys[start..<min(start + Self.maximumOperations, keys.count)]
                        found += try ranges(part, &revision, until: deadline)
                    }
                    return found
                }
            }
            var result: [RecordName: Record] = [:]
            for item in found {
                guard let name = names[item.key] else { continue }
                try check(item, name, maximum)
                let revision = revision(of: item)
                known.remember(name, item.value, revision)
                result[name] = Record(bytes: [UInt8](item.value), revision: revision)
            }
            return result
        }

        /// Calls a closure with the name of every record in a namespace. All are listed as of one revision of the cluster,
        /// unless etcd has removed that meanwhile; the rest is then as of a later one.
        public func forEachName(
            in namespace: String,
            waitingForCommits: Bool,
            _ body: (String) throws -> Void
        ) throws {
            try forEachPage(of: namespace, isOnlyKeys: true) { page in
                for (name, _) in page { try body(name) }
            }
        }

        /// Calls a closure with the records of a namespace, some at a time. All are read as of one revision of the
        /// cluster, unless etcd has removed that meanwhile; the rest is then as of a later one.
        public func forEachPage(
            of namespace: String,
            maximum: Int,
            waitingForCommits: Bool,
            _ body: ([(name: String, record: Record?)]) throws -> Void
        ) throws {
            try forEachPage(of: namespace, isOnlyKeys: false) { page in
                try body(
                    page.map { name, found in
                        if found.value.count > maximum { return (name, nil) }
                        return (name, Record(bytes: [UInt8](found.value), revision: revision(of: found)))
                    }
                )
            }
        }

        private func forEachPage(
            of namespace: String,
            isOnlyKeys: Bool,
            _ body: ([(name: String, found: KeyValue)]) throws -> Void
        ) throws {
            let folder = "\(root)/i/\(namespace)"
            let first = try key(RecordName(namespace: namespace, name: "_")).dropLast()
            var request = RangeRequest(Data(first), to: Self.end(of: folder))
            request.isOnlyKeys = isOnlyKeys
            // Names are hashes, so the first records are a sample of all.
            var limit = isOnlyKeys ? 1000 : 100
            var deadline = gateway.deadline
            while true {
                request.limit = UInt64(limit)
                let answer: RangeAnswer?
                do { answer = try page(request, until: deadline) } catch let failure as GatewayError
                    where failure.cause == .tooLong && limit > 1
                {
                    limit = max(1, limit / 8)
                    continue
                } catch let failure as GatewayError { throw failure.error }
                guard let answer else {
                    request.revision = nil
                    continue
                }
                let begin = ContinuousClock.now
                try body(
                    answer.found.map {
                        (String(decoding: $0.key.dropFirst(folder.utf8.count + 1), as: UTF8.self), $0)
                    }
                )
                deadline += .now - begin  // of that the cluster is not guilty
                guard answer.hasMore, let last = answer.found.last else { return }
                request.key = last.key + [0]
                request.revision = request.revision ?? answer.header?.revision
                if isOnlyKeys { continue }
                // Some megabytes at a time.
                let length = answer.found.reduce(0) { $0 + $1.value.count } / answer.found.count
                limit = min(1000, max(1, (2 << 20) / max(1, length)))
            }
        }

        /// Returns nil if etcd has removed the revision that was asked for.
        private func page(_ request: RangeRequest, until deadline: ContinuousClock.Instant) throws
            -> RangeAnswer?
        {
            do {
                try fence.settle(until: deadline)
                return try gateway.call("/v3/kv/range", request, until: deadline).answer
            } catch let failure as GatewayError where failure.cause == .compacted && request.revision != nil {
                return nil
            }
        }

        /// Returns the namespaces that have records now. One call lists a hundred of them, if they have few records.
        public func namespaces() throws -> [String] {
            let folder = Data("\(root)/i/".utf8)
            var namespaces: [String] = []
            var request = RangeRequest(folder, to: Self.end(of: "\(root)/i"))
            request.isOnlyKeys = true
            request.limit = 100
            try reading { deadline in
                while true {
                    let page: RangeAnswer = try gateway.call("/v3/kv/range", request, until: deadline).answer
                    for item in page.found {
                        request.key = item.key + [0]
                        let rest = item.key.dropFirst(folder.count)
                        guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { continue }
                        // To the end of this namespace.
                        request.key = item.key[..<slash] + [UInt8(ascii: "0")]
                        let name = String(decoding: rest[..<slash], as: UTF8.self)
                        // A longer one is none of ours, and endless long ones would fill memory.
                        if namespaces.last != name, name.utf8.count <= 61 { namespaces.append(name) }
                    }
                    if !page.hasMore { return }
                }
            }
            return namespaces
        }

        // MARK: Requests

        private func check(_ found: KeyValue, _ record: RecordName, _ maximum: Int) throws {
            guard found.value.count > maximum else { return }
            throw LockboxError.corrupt(
                record: subject(of: record),
                reason: "it has more than \(maximum) bytes"
            )
        }

        func range(_ request: RangeRequest) throws -> RangeAnswer {
            try reading { try gateway.call("/v3/kv/range", request, until: $0).answer }
        }

        /// - Parameter revision: The revision to read at, or nil for the current one, which it is afterwards.
        private func ranges(
            _ keys: ArraySlice<Data>,
            _ revision: inout UInt64?,
            until deadline: ContinuousClock.Instant
        ) throws -> [KeyValue] {
            let operations = keys.map { key in
                var request = RangeRequest(key)
                request.revision = revision
                return Operation.range(request)
            }
            let transaction = Transaction(success: operations)
            do {
                let answer: TransactionAnswer = try gateway.call("/v3/kv/txn", transaction, until: deadline)
                    .answer
                revision = revision ?? answer.header?.revision
                return answer.ranges.flatMap(\.found)
            } catch let failure as GatewayError where failure.cause == .tooLong && keys.count > 1 {
                let middle = keys.startIndex + keys.count / 2
                let first = try ranges(keys[..<middle], &revision, until: deadline)
                return try first + ranges(keys[middle...], &revision, until: deadline)
            }
        }

        /// Commits in doubt are settled first, so that what is read now is not changed later by a commit of the past.
        private func reading<Result>(_ body: (ContinuousClock.Instant) throws -> Result) throws -> Result {
            let deadline = gateway.deadline
            do {
                try fence.settle(until: deadline)
                return try body(deadline)
            } catch let failure as GatewayError { throw failure.error }
        }

        /// Starts again, at the current revision, if etcd has removed the one that was read at.
        private func asOfOneRevision<Result>(_ body: (inout UInt64?) throws -> Result) throws -> Result {
            for _ in 0..<10 {
                var revision: UInt64?
                do { return try body(&revision) } catch let failure as GatewayError
                    where failure.cause == .compacted
                {
                    continue
                }
            }
            throw LockboxError.notReachable(
                endpoint: .endpoint(gateway.list),
                reason: "its history was compacted during each of ten attempts"
            )
        }
    }

    /// The records outside of namespaces, as they were last read: the keybag, which commits expect long after it was read.
    ///
    /// A restored snapshot uses revisions again, so another keybag can have the revision of the one that is expected. Its bytes
    /// are others: so a commit compares those.
    final class KnownRecords: Sendable {
        private let records = Guarded<[(revision: RecordRevision, value: Data)]>([])

        /// The longest value that is kept. Values are sent with each commit, so longer ones are left to their revision.
        private static let maximumLength = 16_384
        /// One thread may have read a newer one than another thread expects.
        private static let maximum = 8

        func remember(_ record: RecordName, _ value: Data, _ revision: RecordRevision) {
            guard record.namespace == nil, value.count <= Self.maximumLength else { return }
            records.withLock { records in
                if records.contains(where: { $0.revision == revision }) { return }
                if records.count == Self.maximum { records.removeFirst() }
                records.append((revision, value))
            }
        }

        func value(of record: RecordName, at revision: RecordRevision) -> Data? {
            guard record.namespace == nil else { return nil }
            return records.withLock { $0.first { $0.revision == revision }?.value }
        }
    }
#endif
