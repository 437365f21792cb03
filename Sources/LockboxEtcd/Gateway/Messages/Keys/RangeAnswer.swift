#if Etcd
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
#endif
