#if Etcd
    import LockboxPlatform

    // The messages of etcd's v3 API, with the names that its gateway has for their parts. Of what it sends, whatever is zero,
    // false or empty is left out.

    /// What every answer begins with: which cluster gave it, and when in that cluster's history.
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

    // MARK: Keys and values

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
    }

    struct RangeAnswer: Answer {
        private(set) var header: Header?
        private(set) var found: [KeyValue] = []
        private(set) var hasMore = false

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "header": header = try Header(&json)
                case "kvs": found = try json.array(KeyValue.init)
                case "more": hasMore = try json.bool()
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

    struct DeleteRequest: Request {
        let key: Data

        func write(to json: inout JSONWriter) { json.add("key", key) }
    }

    // MARK: Transactions

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

    /// Requires that a key has a value, or was last written at a revision; 0 requires that there is no such key.
    struct Comparison: Request {
        private enum Expectation {
            case revision(UInt64)
            case value(Data)
        }

        private let key: Data
        private let expectation: Expectation

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

    struct Transaction: Request {
        var compare: [Comparison] = []
        var success: [Operation] = []
        var failure: [Operation] = []

        func write(to json: inout JSONWriter) {
            json.add("compare", compare)
            json.add("success", success)
            json.add("failure", failure)
        }
    }

    struct TransactionAnswer: Answer {
        private(set) var header: Header?
        private(set) var isDone = false
        /// What the ranges among the operations have found.
        private(set) var ranges: [RangeAnswer] = []

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "header": header = try Header(&json)
                case "succeeded": isDone = try json.bool()
                case "responses":
                    ranges = try json.array { json in
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
                    .compactMap(\.self)
                default: try json.skip()
                }
            }
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

    // MARK: Leases and users

    struct LeaseRequest: Request {
        let seconds: UInt64

        func write(to json: inout JSONWriter) { json.add("TTL", seconds) }
    }

    struct LeaseAnswer: Answer {
        private(set) var header: Header?
        private(set) var lease: UInt64?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "header": header = try Header(&json)
                case "ID": lease = try json.number()
                default: try json.skip()
                }
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

    struct AuthenticationAnswer: Message {
        private(set) var token: String?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                if name == "token" { token = try json.text() } else { try json.skip() }
            }
        }
    }

    // MARK: Errors

    /// An error of the gateway. Newer versions leave out `error`, so nothing here depends on it.
    struct ErrorAnswer: Message {
        private(set) var code: UInt64?
        private(set) var message: String?

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
#endif
