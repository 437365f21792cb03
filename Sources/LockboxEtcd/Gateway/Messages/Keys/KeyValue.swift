#if Etcd
    import LockboxPlatform

    struct KeyValue: Message {
        private(set) var key = Data()
        private(set) var value = Data()
        /// The revision of the cluster at which the key was last written.
        private(set) var revision: UInt64 = 0

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "key": key = try json.data()
                case "value": value = try json.data()
                case "mod_revision": revision = try json.revision()
                default: try json.skip()
                }
            }
        }
    }
#endif
