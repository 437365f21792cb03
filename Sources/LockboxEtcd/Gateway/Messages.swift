#if Etcd
    import LockboxPlatform

    // The messages of etcd's v3 API as its gateway has them in JSON: bytes in base64, 64-bit integers as texts, and whatever
    // is zero, false or empty left out.

    /// A 64-bit integer. The gateway writes texts and reads both forms.
    struct Number: Codable, Hashable, Sendable {
        let value: UInt64

        init(_ value: UInt64) { self.value = value }

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let number = try? container.decode(UInt64.self) {
                value = number
                return
            }
            guard let number = UInt64(try container.decode(String.self)) else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a number")
            }
            value = number
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode("\(value)")
        }
    }

    /// What every answer begins with: which cluster gave it, and when in that cluster's history.
    struct Header: Decodable, Sendable {
        let cluster: Number?
        let revision: Number?

        enum CodingKeys: String, CodingKey {
            case cluster = "cluster_id"
            case revision
        }
    }

    protocol Answer: Decodable, Sendable {
        var header: Header? { get }
    }

    // MARK: Keys and values

    struct KeyValue: Decodable, Sendable {
        let key: Data
        private let stated: Data?
        private let modified: Number?

        var value: Data { stated ?? Data() }
        /// The revision of the cluster at which the key was last written.
        var revision: UInt64 { modified?.value ?? 0 }

        enum CodingKeys: String, CodingKey {
            case key
            case stated = "value"
            case modified = "mod_revision"
        }
    }

    struct RangeRequest: Encodable, Sendable {
        var key: Data
        var end: Data?
        var limit: Number?
        var revision: Number?
        var isOnlyKeys: Bool?

        init(_ key: Data, to end: Data? = nil) {
            self.key = key
            self.end = end
        }

        enum CodingKeys: String, CodingKey {
            case key, limit, revision
            case end = "range_end"
            case isOnlyKeys = "keys_only"
        }
    }

    struct RangeAnswer: Answer {
        let header: Header?
        private let kvs: [KeyValue]?
        private let more: Bool?

        var found: [KeyValue] { kvs ?? [] }
        var hasMore: Bool { more ?? false }
    }

    struct PutRequest: Encodable, Sendable {
        let key: Data
        let value: Data
        var lease: Number?
    }

    struct DeleteRequest: Encodable, Sendable {
        let key: Data
    }

    // MARK: Transactions

    /// One operation of a transaction.
    struct Operation: Encodable, Sendable {
        private var range: RangeRequest?
        private var put: PutRequest?
        private var delete: DeleteRequest?

        static func range(_ request: RangeRequest) -> Operation { Operation(range: request) }

        static func put(_ key: Data, _ value: Data, lease: Number? = nil) -> Operation {
            Operation(put: PutRequest(key: key, value: value, lease: lease))
        }

        static func delete(_ key: Data) -> Operation { Operation(delete: DeleteRequest(key: key)) }

        enum CodingKeys: String, CodingKey {
            case range = "request_range"
            case put = "request_put"
            case delete = "request_delete_range"
        }
    }

    /// Requires that a key was last written at a revision; 0 requires that there is no such key.
    struct Comparison: Encodable, Sendable {
        let key: Data
        let revision: Number
        private let target = "MOD"

        init(_ key: Data, at revision: UInt64) {
            self.key = key
            self.revision = Number(revision)
        }

        enum CodingKeys: String, CodingKey {
            case key, target
            case revision = "mod_revision"
        }
    }

    struct Transaction: Encodable, Sendable {
        var compare: [Comparison] = []
        var success: [Operation] = []
        var failure: [Operation] = []
    }

    struct TransactionAnswer: Answer {
        let header: Header?
        private let succeeded: Bool?
        private let responses: [Response]?

        var isDone: Bool { succeeded ?? false }
        /// What the ranges among the operations have found.
        var ranges: [RangeAnswer] { (responses ?? []).compactMap(\.range) }

        private struct Response: Decodable, Sendable {
            let range: RangeAnswer?

            enum CodingKeys: String, CodingKey { case range = "response_range" }
        }
    }

    struct CompactionRequest: Encodable, Sendable {
        let revision: Number
        /// Answers when the older values are out of the database, and not only of reach.
        let physical = true
    }

    struct CompactionAnswer: Answer {
        let header: Header?
    }

    // MARK: Leases and users

    struct LeaseRequest: Encodable, Sendable {
        let seconds: Number

        enum CodingKeys: String, CodingKey { case seconds = "TTL" }
    }

    struct LeaseAnswer: Answer {
        let header: Header?
        let lease: Number?

        enum CodingKeys: String, CodingKey {
            case header
            case lease = "ID"
        }
    }

    struct AuthenticationRequest: Encodable, Sendable {
        let name: String
        let password: String
    }

    struct AuthenticationAnswer: Answer {
        let header: Header?
        let token: String?
    }

    // MARK: Errors

    /// An error of the gateway. Newer versions leave out `error`, so nothing here depends on it.
    struct ErrorAnswer: Decodable, Sendable {
        let code: Int?
        let message: String?
    }
#endif
