#if Etcd
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
#endif
