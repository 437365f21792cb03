#if Etcd
    protocol Answer: Message {
        var header: Header? { get }
    }
#endif
