#if Etcd
    /// An answer that says only that it is done.
    struct Done: Answer {
        private(set) var header: Header?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                if name == "header" { header = try Header(&json) } else { try json.skip() }
            }
        }
    }
#endif
