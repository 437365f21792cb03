#if Etcd
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
#endif
