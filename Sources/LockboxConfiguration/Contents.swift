#if Configuration
    import LockboxCore

    /// What was read of all items.
    struct Contents: Sendable {
        var items: [String: Reading] = [:]
        /// Whether there are damaged items whose keys are not known. An absent key may be that of one.
        var hasUnnamed = false

        func reading(_ name: String, _ lockbox: Lockbox) -> Reading? {
            items[name] ?? (hasUnnamed ? Reading(name, lockbox) : nil)
        }
    }
#endif
