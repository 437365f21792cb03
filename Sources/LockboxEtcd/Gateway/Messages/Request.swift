#if Etcd
    /// Something to ask of etcd.
    protocol Request: Sendable {
        func write(to json: inout JSONWriter)
    }

    extension Request {
        var body: [UInt8] {
            var json = JSONWriter()
            json.object(write)
            return json.bytes
        }
    }
#endif
