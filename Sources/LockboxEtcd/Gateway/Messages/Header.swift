#if Etcd
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
#endif
