#if Etcd
    /// One of the messages that answer it, each on a line of its own.
    struct WatchMessage: Message {
        private var result: Result?

        /// Nil for an error, after which nothing follows.
        var isError: Bool { result == nil }
        var isCanceled: Bool { result?.isCanceled ?? false }
        /// Whether it says that the member watches now.
        var isCreated: Bool { result?.isCreated ?? false }
        /// Whether what was asked for has been removed from etcd's history.
        var isCompacted: Bool { (result?.compacted ?? 0) > 0 }
        var reason: String { ErrorAnswer.short(result?.reason ?? "") }
        /// Whether more of the same revision may follow in the next one.
        var isFragment: Bool { result?.isFragment ?? false }
        /// Which cluster has sent it, and at which revision.
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
#endif
