#if Etcd
    struct CompactionRequest: Request {
        let revision: UInt64

        func write(to json: inout JSONWriter) {
            json.add("revision", revision)
            // Answers when the older values are out of the database, and not only of reach.
            json.add("physical", true)
        }
    }
#endif
