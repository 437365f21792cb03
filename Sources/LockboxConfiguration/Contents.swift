#if Configuration
    import LockboxCore

    /// What was read of all items.
    struct Contents: Sendable {
        var items: [String: Reading] = [:]
        /// Whether there are damaged items whose keys are not known. An absent key may be that of one.
        var hasUnnamed = false

        /// Returns these, with what was read before of items that cannot be read for now.
        func keeping(_ old: Contents) -> Contents {
            var kept = self
            for (name, reading) in items { kept.items[name] = Optional(reading).keeping(old.items[name]) }
            return kept
        }

        func reading(_ name: String, _ lockbox: Lockbox) -> Reading? {
            items[name] ?? (hasUnnamed ? Reading(name, lockbox) : nil)
        }
    }
#endif
