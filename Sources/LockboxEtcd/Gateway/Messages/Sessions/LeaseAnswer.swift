#if Etcd
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
#endif
