#if Etcd
    struct AuthenticationRequest: Request {
        let name: String
        let password: String

        func write(to json: inout JSONWriter) {
            json.add("name", name)
            json.add("password", password)
        }
    }
#endif
