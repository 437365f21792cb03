#if Etcd
    struct StatusRequest: Request {
        func write(to json: inout JSONWriter) {}
    }
#endif
