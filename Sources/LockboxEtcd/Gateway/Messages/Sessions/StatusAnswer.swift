#if Etcd
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
#endif
