#if Etcd
    struct Transaction: Request {
        var compare: [Comparison] = []
        var success: [Operation] = []
        var failure: [Operation] = []

        func write(to json: inout JSONWriter) {
            json.add("compare", compare)
            json.add("success", success)
            json.add("failure", failure)
        }
    }
#endif
