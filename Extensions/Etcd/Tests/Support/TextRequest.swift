#if Etcd
    @testable import LockboxEtcd

    /// A request whose members are all texts.
    struct TextRequest: Request {
        private let members: [String: String]

        init(_ members: [String: String]) { self.members = members }

        func write(to json: inout JSONWriter) {
            for (name, text) in members { json.add(name, text) }
        }
    }
#endif
