#if Etcd
    import LockboxPlatform

    /// Requires that a key has a value, or was last written at a revision; 0 requires that there is no such key.
    struct Comparison: Request {
        private enum Expectation {
            case revision(UInt64)
            case value(Data)
        }

        private let key: Data
        private let expectation: Expectation

        /// The revision that it requires, if any.
        var revision: UInt64? { if case .revision(let revision) = expectation { revision } else { nil } }

        init(_ key: Data, at revision: UInt64) {
            self.key = key
            expectation = .revision(revision)
        }

        init(_ key: Data, is value: Data) {
            self.key = key
            expectation = .value(value)
        }

        func write(to json: inout JSONWriter) {
            json.add("key", key)
            switch expectation {
            case .revision(let revision):
                json.add("target", "MOD")
                json.add("mod_revision", revision)
            case .value(let value):
                json.add("target", "VALUE")
                json.add("value", value)
            }
        }
    }
#endif
