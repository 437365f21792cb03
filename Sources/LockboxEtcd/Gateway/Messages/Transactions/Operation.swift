#if Etcd
    import LockboxPlatform

    /// One operation of a transaction.
    enum Operation: Request {
        case range(RangeRequest)
        case put(PutRequest)
        case delete(DeleteRequest)

        static func put(_ key: Data, _ value: Data, lease: UInt64? = nil) -> Operation {
            .put(PutRequest(key: key, value: value, lease: lease))
        }

        static func delete(_ key: Data) -> Operation { .delete(DeleteRequest(key: key)) }

        func write(to json: inout JSONWriter) {
            switch self {
            case .range(let request): json.add("request_range", request)
            case .put(let request): json.add("request_put", request)
            case .delete(let request): json.add("request_delete_range", request)
            }
        }
    }
#endif
