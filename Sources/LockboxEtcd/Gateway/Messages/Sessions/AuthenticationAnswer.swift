#if Etcd
    struct AuthenticationAnswer: Message {
        private(set) var token: String?

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                if name == "token" { token = try json.text() } else { try json.skip() }
            }
        }
    }
#endif
