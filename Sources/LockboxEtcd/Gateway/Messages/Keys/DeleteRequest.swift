#if Etcd
    import LockboxPlatform

    struct DeleteRequest: Request {
        let key: Data

        func write(to json: inout JSONWriter) { json.add("key", key) }
    }
#endif
