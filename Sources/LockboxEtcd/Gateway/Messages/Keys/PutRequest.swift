#if Etcd
    import LockboxPlatform

    struct PutRequest: Request {
        let key: Data
        let value: Data
        var lease: UInt64?

        func write(to json: inout JSONWriter) {
            json.add("key", key)
            json.add("value", value)
            json.add("lease", lease)
        }
    }
#endif
