#if Etcd
    import LockboxPlatform

    struct RangeRequest: Request {
        var key: Data
        var end: Data?
        var limit: UInt64?
        var revision: UInt64?
        var isOnlyKeys: Bool?

        init(_ key: Data, to end: Data? = nil) {
            self.key = key
            self.end = end
        }

        func write(to json: inout JSONWriter) {
            json.add("key", key)
            json.add("range_end", end)
            json.add("limit", limit)
            json.add("revision", revision)
            json.add("keys_only", isOnlyKeys)
        }
    }
#endif
