#if Etcd
    /// Something to ask of etcd.
    protocol Request: Sendable {
        func write(to json: inout JSONWriter)
        /// The most bytes that its answer may have.
        var maximumLength: Int { get }
        /// The most elements that all lists in its answer may have.
        var maximumElements: Int { get }
        /// Whether an answer can be one to this request.
        func accepts(_ answer: some Answer) -> Bool
    }

    extension Request {
        var maximumLength: Int { 65_536 }
        var maximumElements: Int { 0 }
        func accepts(_ answer: some Answer) -> Bool { true }

        var body: [UInt8] {
            var json = JSONWriter()
            json.object(write)
            return json.bytes
        }
    }
#endif
