#if Etcd
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
#endif
