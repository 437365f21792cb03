#if Etcd
    /// An error of the gateway. Newer versions leave out `error`, so nothing here depends on it.
    struct ErrorAnswer: Message {
        private(set) var code: UInt64?
        private(set) var message: String?

        /// The beginning of a member's text, which could otherwise fill a log.
        static func short(_ text: String) -> String { String(text.unicodeScalars.prefix(200)) }

        init(_ json: inout JSONReader) throws {
            try json.object { json, name in
                switch name {
                case "code": code = try json.number()
                case "message": message = try json.text()
                default: try json.skip()
                }
            }
        }
    }
#endif
