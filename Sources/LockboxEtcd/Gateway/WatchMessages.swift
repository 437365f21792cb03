#if Etcd
    import LockboxPlatform

    /// Asks for everything that happens to a range of keys from a revision on.
    struct WatchRequest: Encodable, Sendable {
        private let create: Create

        init(_ key: Data, to end: Data, from revision: UInt64) {
            create = Create(key: key, end: end, revision: Number(revision))
        }

        private struct Create: Encodable, Sendable {
            let key: Data
            let end: Data
            let revision: Number

            enum CodingKeys: String, CodingKey {
                case key
                case end = "range_end"
                case revision = "start_revision"
            }
        }

        enum CodingKeys: String, CodingKey { case create = "create_request" }
    }

    /// One of the messages that answer it, each on a line of its own.
    struct WatchMessage: Decodable, Sendable {
        private let result: Result?

        /// Nil for an error, after which nothing follows.
        var isError: Bool { result == nil }
        var isCanceled: Bool { result?.canceled ?? false }
        /// Whether what was asked for has been removed from etcd's history.
        var isCompacted: Bool { (result?.compacted?.value ?? 0) > 0 }
        var reason: String { result?.reason ?? "" }
        /// Which cluster has sent it, and at which revision.
        var header: Header? { result?.header }
        var changes: [KeyValue] { (result?.events ?? []).map(\.kv) }

        private struct Result: Decodable, Sendable {
            struct Event: Decodable, Sendable { let kv: KeyValue }

            let header: Header?
            let canceled: Bool?
            let compacted: Number?
            let reason: String?
            let events: [Event]?

            enum CodingKeys: String, CodingKey {
                case header, canceled, events
                case compacted = "compact_revision"
                case reason = "cancel_reason"
            }
        }
    }
#endif
