#if Configuration
    import LockboxCore

    /// The readings of all items. A read that began earlier than the last one of an item replaces nothing.
    struct Contents: Sendable {
        private(set) var items: [String: Reading] = [:]
        /// Whether there are damaged items whose keys are not known. An absent key may be that of one.
        private(set) var hasUnnamed = false
        /// Items that could not be read for now.
        private(set) var postponed: Set<String> = []
        /// How often something could be read that was postponed.
        private(set) var recoveries = 0

        private var begun = 0
        /// The last read that had begun when all could not be read for now.
        private var allPostponed: Int?
        private var last: [String: Int] = [:]

        /// Returns the number of a read that begins now.
        mutating func begin() -> Int {
            begun += 1
            return begun
        }

        mutating func store(_ reading: Reading?, _ name: String, from begin: Int) {
            guard begin > last[name, default: 0] else { return }
            last[name] = begin
            if reading?.isForNow == true {
                postponed.insert(name)
                // It says nothing about the item.
                if case .item = items[name] { return }
            } else if postponed.remove(name) != nil {
                recoveries += 1
            }
            items[name] = reading
        }

        mutating func store(_ list: ReadList, from begin: Int) {
            for name in Set(items.keys).union(list.items.keys) { store(list.items[name], name, from: begin) }
            hasUnnamed = list.hasUnnamed
            guard let allPostponed, begin > allPostponed else { return }
            self.allPostponed = nil
            recoveries += 1
        }

        mutating func postponeAll() { allPostponed = begun }

        var areAllPostponed: Bool { allPostponed != nil }

        func reading(_ name: String, _ lockbox: Lockbox) -> Reading? {
            items[name] ?? (hasUnnamed ? Reading(name, lockbox) : nil)
        }
    }
#endif
