#if Etcd
    import LockboxPlatform

    /// Asks for everything that happens to a range of keys from a revision on, and for a message now and then of how far that is.
    struct WatchRequest: Request {
        private let range: Range

        init(_ key: Data, to end: Data, from revision: UInt64) {
            range = Range(key: key, end: end, revision: revision)
        }

        private struct Range: Request {
            let key: Data
            let end: Data
            let revision: UInt64

            func write(to json: inout JSONWriter) {
                json.add("key", key)
                json.add("range_end", end)
                json.add("start_revision", revision)
                json.add("progress_notify", true)
                // A long message comes in several, so that none is longer than a request may be.
                json.add("fragment", true)
            }
        }

        func write(to json: inout JSONWriter) { json.add("create_request", range) }
    }
#endif
