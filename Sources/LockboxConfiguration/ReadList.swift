#if Configuration
    import LockboxCore

    /// All items, as they were read at one time.
    struct ReadList: Sendable {
        private(set) var items: [String: Reading] = [:]
        private(set) var hasUnnamed = false

        /// Reads from the store.
        ///
        /// - Throws: If the items cannot be listed at all.
        init(_ lockbox: Lockbox) throws {
            let list = try lockbox.list()
            for item in list.unreadable {
                if let key = item.key {
                    items[key.key] = .failure(item.error)
                } else {
                    hasUnnamed = true
                }
            }
            for name in list.items.keys { items[name] = Reading(name, lockbox) }
        }
    }
#endif
