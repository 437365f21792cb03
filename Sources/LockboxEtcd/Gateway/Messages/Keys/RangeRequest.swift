#if Etcd
    import LockboxPlatform

    struct RangeRequest: Request {
        var key: Data
        var end: Data?
        var limit: UInt64?
        var revision: UInt64?
        var isOnlyKeys: Bool?

        init(_ key: Data, to end: Data? = nil) {
            self.key = key
            self.end = end
        }

        func write(to json: inout JSONWriter) {
            json.add("key", key)
            json.add("range_end", end)
            json.add("limit", limit)
            json.add("revision", revision)
            json.add("keys_only", isOnlyKeys)
        }

        // MARK: Its answer

        /// 24 MiB of values. Who asks for more of them has to ask for fewer at once.
        static let maximumLength = 32 << 20

        var maximumLength: Int { isOnlyKeys == true ? 4 << 20 : Self.maximumLength }
        var maximumElements: Int { end == nil ? 1 : Int(limit ?? 1000) }

        func accepts(_ answer: some Answer) -> Bool {
            (answer as? RangeAnswer).map { accepts($0, at: $0.header?.revision ?? 0) } ?? true
        }

        /// Whether it has nothing but what was asked for, in order, and all of it unless it says that there is more.
        ///
        /// - Parameter now: The revision of the cluster.
        func accepts(_ answer: RangeAnswer, at now: UInt64) -> Bool {
            var next = key
            for item in answer.found {
                let isInRange =
                    end.map { !item.key.precedes(next) && item.key.precedes($0) } ?? (item.key == next)
                guard isInRange, item.revision > 0, item.revision <= now else { return false }
                next = item.key + [0]
            }
            let count = UInt64(answer.found.count)
            return answer.hasMore ? answer.count > count && count > 0 : answer.count == count
        }
    }

    extension Data {
        /// In etcd's order.
        func precedes(_ other: Data) -> Bool { lexicographicallyPrecedes(other) }
    }
#endif
