#if Etcd
    import LockboxPlatform

    /// Something that etcd answers, or a part of it.
    protocol Message: Sendable {
        init(_ json: inout JSONReader) throws
    }

    /// Something to ask of etcd.
    protocol Request: Sendable {
        func write(to json: inout JSONWriter)
        /// The most bytes that its answer may have.
        var maximumLength: Int { get }
        /// The most elements that all lists in its answer may have.
        var maximumElements: Int { get }
        /// Whether an answer can be one to this request.
        func accepts(_ answer: some Answer) -> Bool
    }

    extension Request {
        var maximumLength: Int { 65_536 }
        var maximumElements: Int { 0 }
        func accepts(_ answer: some Answer) -> Bool { true }

        var body: [UInt8] {
            var json = JSONWriter()
            json.object(write)
            return json.bytes
        }
    }

    protocol Answer: Message {
        var header: Header? { get }
    }

    /// An answer that says only that it is done.
    struct Done: Answer {
        private(set) var header: Header?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                if name == "header" { header = try Header(&json) } else { try json.skip() }
            }
        }
    }

    // The messages of etcd's v3 API, with the names that its gateway has for their parts. The gateway leaves out
    // what is zero, false or empty.

    /// The beginning of every answer: which cluster gave it, and when in that cluster's history.
    struct Header: Message {
        private(set) var cluster: UInt64?
        private(set) var member: UInt64?
        private(set) var revision: UInt64?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "cluster_id": cluster = try json.number()
                case "member_id": member = try json.number()
                case "revision": revision = try json.revision()
                default: try json.skip()
                }
            }
        }
    }

    /// An error of the gateway. Newer versions leave out `error`, so nothing here depends on it.
    struct ErrorAnswer: Message {
        private(set) var code: UInt64?
        private(set) var message: String?

        /// The beginning of a member's text, which could otherwise fill a log.
        static func short(_ text: String) -> String { String(text.unicodeScalars.prefix(200)) }

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "code": code = try json.number()
                case "message": message = try json.text()
                default: try json.skip()
                }
            }
        }
    }

    struct DeleteRequest: Request {
        let key: Data

        func write(to json: inout JSONWriter) { json.add("key", key) }
    }

    struct KeyValue: Message {
        private(set) var key = Data()
        private(set) var value = Data()
        /// The revision of the cluster at which the key was last written.
        private(set) var revision: UInt64 = 0

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "key": key = try json.data()
                case "value": value = try json.data()
                case "mod_revision": revision = try json.revision()
                default: try json.skip()
                }
            }
        }
    }

    struct PutRequest: Request {
        let key: Data
        let value: Data
        var lease: UInt64?

        func write(to json: inout JSONWriter) {
            json.add("key", key)
            json.add("value", value)
            json.add("lease", lease)
        }
    }

    struct RangeAnswer: Answer {
        private(set) var header: Header?
        private(set) var found: [KeyValue] = []
        private(set) var hasMore = false
        /// How many there are, also if the limit left some out.
        private(set) var count: UInt64 = 0

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "header": header = try Header(&json)
                case "kvs": found = try json.array(KeyValue.init)
                case "more": hasMore = try json.bool()
                case "count": count = try json.number()
                default: try json.skip()
                }
            }
        }
    }

    struct RangeRequest: Request {
        var key: Data
        var end: Data?
        var limit: UInt64?
        var revision: UInt64?
        var isOnlyKeys: Bool?

        init(_ key: Data, to end: Data? = nil) {
            self.key = key
            self.end = end
        }

        func write(to json: inout JSONWriter) {
            json.add("key", key)
            json.add("range_end", end)
            json.add("limit", limit)
            json.add("revision", revision)
            json.add("keys_only", isOnlyKeys)
        }

        // MARK: Its answer

        /// 24 MiB of values. A caller that wants more has to ask for fewer at once.
        static let maximumLength = 32 << 20

        var maximumLength: Int { isOnlyKeys == true ? 4 << 20 : Self.maximumLength }
        var maximumElements: Int { end == nil ? 1 : Int(limit ?? 1000) }

        func accepts(_ answer: some Answer) -> Bool {
            (answer as? RangeAnswer).map { accepts($0, at: $0.header?.revision ?? 0) } ?? true
        }

        /// Whether it has nothing but what was asked for, in order, and all of it unless it says that there is more.
        ///
        /// - Parameter now: The revision of the cluster.
        func accepts(_ answer: RangeAnswer, at now: UInt64) -> Bool {
            var next = key
            for item in answer.found {
                let isInRange =
                    end.map { !item.key.precedes(next) && item.key.precedes($0) } ?? (item.key == next)
                guard isInRange, item.revision > 0, item.revision <= now else { return false }
                next = item.key + [0]
            }
            let count = UInt64(answer.found.count)
            return answer.hasMore ? answer.count > count && count > 0 : answer.count == count
        }
    }

    extension Data {
        /// In etcd's order.
        func precedes(_ other: Data) -> Bool { lexicographicallyPrecedes(other) }
    }

    struct AuthenticationAnswer: Message {
        private(set) var token: String?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                if name == "token" { token = try json.text() } else { try json.skip() }
            }
        }
    }

    struct AuthenticationRequest: Request {
        let name: String
        let password: String

        func write(to json: inout JSONWriter) {
            json.add("name", name)
            json.add("password", password)
        }
    }

    struct CompactionRequest: Request {
        let revision: UInt64

        func write(to json: inout JSONWriter) {
            json.add("revision", revision)
            // Answers when the older values are out of the database, and not only of reach.
            json.add("physical", true)
        }
    }

    struct LeaseAnswer: Answer {
        private(set) var header: Header?
        private(set) var lease: UInt64?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "header": header = try Header(&json)
                case "ID": lease = try json.revision()  // signed, too
                default: try json.skip()
                }
            }
        }
    }

    struct LeaseRequest: Request {
        let seconds: UInt64

        func write(to json: inout JSONWriter) { json.add("TTL", seconds) }
    }

    struct StatusAnswer: Answer {
        private(set) var header: Header?
        private(set) var version = ""
        private(set) var size: UInt64 = 0
        /// Left out if there is none.
        private var leader: UInt64?

        var isLeader: Bool { leader != nil && leader != 0 && leader == header?.member }

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "header": header = try Header(&json)
                case "version": version = try json.text()
                case "dbSize": size = try json.number()
                case "leader": leader = try json.number()
                default: try json.skip()
                }
            }
        }
    }

    struct StatusRequest: Request {
        func write(to json: inout JSONWriter) {}
    }

    /// Requires that a key has a value, or was last written at a revision; 0 requires that there is no such key.
    struct Comparison: Request {
        private enum Expectation {
            case revision(UInt64)
            case value(Data)
        }

        private let key: Data
        private let expectation: Expectation

        /// The revision that it requires, if any.
        var revision: UInt64? { if case .revision(let revision) = expectation { revision } else { nil } }

        init(_ key: Data, at revision: UInt64) {
            self.key = key
            expectation = .revision(revision)
        }

        init(_ key: Data, is value: Data) {
            self.key = key
            expectation = .value(value)
        }

        func write(to json: inout JSONWriter) {
            json.add("key", key)
            switch expectation {
            case .revision(let revision):
                json.add("target", "MOD")
                json.add("mod_revision", revision)
            case .value(let value):
                json.add("target", "VALUE")
                json.add("value", value)
            }
        }
    }

    /// One operation of a transaction.
    enum Operation: Request {
        case range(RangeRequest)
        case put(PutRequest)
        case delete(DeleteRequest)

        static func put(_ key: Data, _ value: Data, lease: UInt64? = nil) -> Operation {
            .put(PutRequest(key: key, value: value, lease: lease))
        }

        static func delete(_ key: Data) -> Operation { .delete(DeleteRequest(key: key)) }

        func write(to json: inout JSONWriter) {
            switch self {
            case .range(let request): json.add("request_range", request)
            case .put(let request): json.add("request_put", request)
            case .delete(let request): json.add("request_delete_range", request)
            }
        }
    }

    struct Transaction: Request {
        var compare: [Comparison] = []
        var success: [Operation] = []
        var failure: [Operation] = []

        func write(to json: inout JSONWriter) {
            json.add("compare", compare)
            json.add("success", success)
            json.add("failure", failure)
        }

        // MARK: Its answer

        private var operations: [Operation] { success + failure }

        var maximumLength: Int {
            let hasRange = operations.contains { if case .range = $0 { true } else { false } }
            return hasRange ? RangeRequest.maximumLength : 65_536
        }

        /// Responses, and what the ranges have found.
        var maximumElements: Int { 2 * max(success.count, failure.count) }

        func accepts(_ answer: some Answer) -> Bool {
            guard let answer = answer as? TransactionAnswer else { return true }
            let now = answer.header?.revision ?? 0
            let made = answer.isDone ? success : failure
            guard answer.isDone || !compare.isEmpty, answer.responses.count == made.count else {
                return false
            }
            return zip(made, answer.responses).allSatisfy { operation, response in
                switch operation {
                case .range(let request): response.map { request.accepts($0, at: now) } ?? false
                // The write came after the revision that was compared.
                case .put: response == nil && compare.allSatisfy { $0.revision ?? 0 < now }
                case .delete: response == nil
                }
            }
        }
    }

    struct TransactionAnswer: Answer {
        private(set) var header: Header?
        private(set) var isDone = false
        /// For each operation, what it has found if it is a range.
        private(set) var responses: [RangeAnswer?] = []
        var ranges: [RangeAnswer] { responses.compactMap(\.self) }

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "header": header = try Header(&json)
                case "succeeded": isDone = try json.bool()
                case "responses":
                    responses = try json.array { json in
                        var range: RangeAnswer?
                        try json.object { json, name in
                            if name == "response_range" {
                                range = try RangeAnswer(&json)
                            } else {
                                try json.skip()
                            }
                        }
                        return range
                    }
                default: try json.skip()
                }
            }
        }
    }

    /// One of the messages that answer it, each on a line of its own.
    struct WatchMessage: Message {
        private var result: Result?

        /// Whether it is an error, after which nothing follows.
        var isError: Bool { result == nil }
        var isCanceled: Bool { result?.isCanceled ?? false }
        /// Whether it says that the member watches now.
        var isCreated: Bool { result?.isCreated ?? false }
        /// Whether what was asked for has been removed from etcd's history.
        var isCompacted: Bool { (result?.compacted ?? 0) > 0 }
        var reason: String { ErrorAnswer.short(result?.reason ?? "") }
        /// Whether more of the same revision may follow in the next one.
        var isFragment: Bool { result?.isFragment ?? false }
        /// The cluster that has sent it, and its revision.
        var header: Header? { result?.header }
        var changes: [KeyValue] { result?.changes ?? [] }

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                if name == "result" { result = try Result(&json) } else { try json.skip() }
            }
        }

        private struct Result: Message {
            var header: Header?
            var isCanceled = false
            var isCreated = false
            var isFragment = false
            var compacted: UInt64 = 0
            var reason = ""
            var changes: [KeyValue] = []

            init(_ json: inout JSONReader) throws {
                try json.object { json, name in
                    switch name {
                    case "header": header = try Header(&json)
                    case "canceled": isCanceled = try json.bool()
                    case "created": isCreated = try json.bool()
                    case "fragment": isFragment = try json.bool()
                    case "compact_revision": compacted = try json.number()
                    case "cancel_reason": reason = try json.text()
                    case "events": changes = try json.array { try Event(&$0).change }.compactMap(\.self)
                    default: try json.skip()
                    }
                }
            }
        }

        private struct Event: Message {
            var change: KeyValue?

            init(_ json: inout JSONReader) throws {
                try json.object { json, name in
                    if name == "kv" { change = try KeyValue(&json) } else { try json.skip() }
                }
            }
        }
    }

    /// Asks for everything that happens to a range of keys from a revision on, and for a message now and then of how far that is.
    struct WatchRequest: Request {
        private let range: Range

        init(_ key: Data, to end: Data, from revision: UInt64) {
            range = Range(key: key, end: end, revision: revision)
        }

        private struct Range: Request {
            let key: Data
            let end: Data
            let revision: UInt64

            func write(to json: inout JSONWriter) {
                json.add("key", key)
                json.add("range_end", end)
                json.add("start_revision", revision)
                json.add("progress_notify", true)
                // A long message comes in several, so that none is longer than a request may be.
                json.add("fragment", true)
            }
        }

        func write(to json: inout JSONWriter) { json.add("create_request", range) }
    }
#endif
