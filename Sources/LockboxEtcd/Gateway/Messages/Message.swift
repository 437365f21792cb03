#if Etcd
    /// Something that etcd answers, or a part of it.
    protocol Message: Sendable {
        init(_ json: inout JSONReader) throws
    }
#endif
