#if Etcd
    import LockboxCore
    import LockboxPlatform
    public import LockboxSealed

    extension EtcdStorage {
        /// Calls a closure with the bytes of a record. Returns false if it is absent.
        public func read(
            _ record: RecordName,
            upTo limit: Int,
            maximum: Int,
            _ body: (RecordContents) throws -> Void
        ) throws -> Bool {
            guard let found = try range(RangeRequest(key(record))).found.first else { return false }
            try check(found, record, maximum)
            var bytes = found.value
            let revision = revision(of: found)
            known.remember(record, found.value, revision)
            try bytes.withUnsafeMutableBytes { try body(RecordContents(bytes: $0, revision: revision)) }
            return true
        }

        /// Returns several records, all as of one revision of the cluster. Absent ones are left out.
        public func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
            let names = Dictionary(try records.map { (try key($0), $0) }) { first, _ in first }
            let keys = Array(names.keys)
            let found = try asOfOneRevision { revision in
                var found: [KeyValue] = []
                for start in stride(from: 0, to: keys.count, by: Self.maximumOperations) {
                    let part = keys[start..<min(start + Self.maximumOperations, keys.count)]
                    found += try ranges(Array(part), &revision)
                }
                return found
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

        /// Calls a closure with the name of every record in a namespace, as of one revision of the cluster.
        public func forEachName(
            in namespace: String,
            waitingForCommits: Bool,
            _ body: (String) throws -> Void
        ) throws {
            let folder = "\(root)/i/\(namespace)"
            let first = try key(RecordName(namespace: namespace, name: "_")).dropLast()
            let names = try asOfOneRevision { revision in
                var names: [String] = []
                var request = RangeRequest(first, to: Self.end(of: folder))
                request.isOnlyKeys = true
                request.limit = 1000
                while true {
                    request.revision = revision
                    let page = try range(request)
                    revision = revision ?? page.header?.revision
                    names += page.found.map {
                        String(decoding: $0.key.dropFirst(folder.utf8.count + 1), as: UTF8.self)
                    }
                    guard page.hasMore, let last = page.found.last else { return names }
                    request.key = last.key + [0]
                }
            }
            try names.forEach(body)
        }

        /// Calls a closure with the records of a namespace, some at a time. All are read as of one revision of the
        /// cluster, unless etcd has removed that meanwhile; the rest is then as of a later one.
        public func forEachPage(
            of namespace: String,
            maximum: Int,
            waitingForCommits: Bool,
            _ body: ([(name: String, record: Record?)]) throws -> Void
        ) throws {
            let folder = "\(root)/i/\(namespace)"
            let first = try key(RecordName(namespace: namespace, name: "_")).dropLast()
            var request = RangeRequest(first, to: Self.end(of: folder))
            // Names are hashes, so these are a sample of all.
            request.limit = 100
            while true {
                let page: RangeAnswer
                do { page = try range(request) } catch let failure as GatewayError where failure.isCompacted {
                    request.revision = nil
                    continue
                }
                try body(
                    page.found.map { found in
                        let name = String(decoding: found.key.dropFirst(folder.utf8.count + 1), as: UTF8.self)
                        if found.value.count > maximum { return (name, nil) }
                        return (name, Record(bytes: [UInt8](found.value), revision: revision(of: found)))
                    }
                )
                guard page.hasMore, let last = page.found.last else { return }
                request.key = last.key + [0]
                request.revision = request.revision ?? page.header?.revision
                // Some megabytes at a time.
                let length = page.found.reduce(0) { $0 + $1.value.count } / page.found.count
                request.limit = UInt64(min(1000, max(1, (2 << 20) / max(1, length))))
            }
        }

        /// Returns the namespaces that have records now, with one call for each.
        public func namespaces() throws -> [String] {
            let folder = "\(root)/i"
            var namespaces: [String] = []
            var request = RangeRequest(Data("\(folder)/".utf8), to: Self.end(of: folder))
            request.isOnlyKeys = true
            request.limit = 1
            while let found = try range(request).found.first {
                let rest = found.key.dropFirst(folder.utf8.count + 1)
                let name = String(decoding: rest.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self)
                namespaces.append(name)
                request.key = Self.end(of: "\(folder)/\(name)")
            }
            return namespaces
        }

        // MARK: Requests

        private func check(_ found: KeyValue, _ record: RecordName, _ maximum: Int) throws {
            guard found.value.count > maximum else { return }
            throw LockboxError.corrupt(
                record: location(of: record),
                reason: "it has more than \(maximum) bytes"
            )
        }

        func range(_ request: RangeRequest) throws -> RangeAnswer {
            try reading { try gateway.call("/v3/kv/range", request, until: $0).answer }
        }

        /// - Parameter revision: The revision to read at. Nil for the current one, which it is afterwards.
        private func ranges(_ keys: [Data], _ revision: inout UInt64?) throws -> [KeyValue] {
            let operations = keys.map { key in
                var request = RangeRequest(key)
                request.revision = revision
                return Operation.range(request)
            }
            let answer: TransactionAnswer = try reading {
                try gateway.call("/v3/kv/txn", Transaction(success: operations), until: $0).answer
            }
            revision = revision ?? answer.header?.revision
            return answer.ranges.flatMap(\.found)
        }

        /// What is in doubt is settled first, so that what is read now is not changed later by a commit of the past.
        private func reading<Result>(_ body: (ContinuousClock.Instant) throws -> Result) throws -> Result {
            let deadline = gateway.deadline
            do {
                try fence.settle(until: deadline)
                return try body(deadline)
            } catch let failure as GatewayError where !failure.isCompacted {
                throw failure.error
            }
        }

        /// Starts again, at the current revision, if etcd has removed the one that was read at.
        private func asOfOneRevision<Result>(_ body: (inout UInt64?) throws -> Result) throws -> Result {
            for _ in 0..<10 {
                var revision: UInt64?
                do { return try body(&revision) } catch let failure as GatewayError where failure.isCompacted
                {
                    continue
                }
            }
            throw LockboxError.notReachable(
                endpoint: gateway.list,
                reason: "its history was compacted during each of ten attempts"
            )
        }
    }
#endif
