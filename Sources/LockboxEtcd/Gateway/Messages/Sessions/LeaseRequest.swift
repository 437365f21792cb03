#if Etcd
    struct LeaseRequest: Request {
        let seconds: UInt64

        func write(to json: inout JSONWriter) { json.add("TTL", seconds) }
    }
#endif
