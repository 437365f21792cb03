#if SecretService
    import CSystemd
    import LockboxCore
    import LockboxPlatform

    /// The names and attributes of one prefix's items, kept in memory as long as nobody has changed them. To read them anew takes as long
    /// as to decrypt all of them.
    final class ItemIndex {
        /// A change leaves another time at the folder. Two within one tick of the kernel's clock, at most 10 ms, do not, and on some file
        /// systems two within one or two seconds.
        private static func tick(_ time: timespec) -> TimeInterval { time.tv_nsec == 0 ? 2 : 0.05 }

        private let backend: any LockboxBackend
        private let prefix: String
        /// The items as they were read last, with this process's changes since.
        private(set) var known: [ItemKey: ItemAttributes] = [:]
        /// The folder's time when they were read, if no later change can have the same.
        private var time: timespec?

        init(_ backend: any LockboxBackend, prefix: String) {
            self.backend = backend
            self.prefix = prefix
        }

        /// Returns the items, also what another process has changed before the call. Damaged ones are left out, and expired ones.
        func items() throws -> [ItemKey: ItemAttributes] {
            let (changed, now) = (folderTime, Date())
            if time == nil || !(changed.map(isKnown) ?? false) {
                // An item that cannot be read for a moment is looked for again.
                var isWhole = true
                (known, time) = ([:], nil)
                try backend.forEachItem(prefix: prefix, now: nil, unreadable: { _ in isWhole = false }) {
                    known[$0] = $1
                }
                if isWhole, let changed, now.timeIntervalSince(changed.date) > Self.tick(changed) {
                    time = changed
                }
            }
            return known.filter { !$0.value.isExpired(at: now) }
        }

        /// What others have changed at the same time shows in ``items()``.
        func note(_ key: ItemKey, _ attributes: ItemAttributes?) { known[key] = attributes }

        private func isKnown(_ changed: timespec) -> Bool {
            changed.tv_sec == time?.tv_sec && changed.tv_nsec == time?.tv_nsec
        }

        /// When an item was last written or removed, or nil if the items are not in files.
        private var folderTime: timespec? {
            guard let key = try? ItemKey(prefix: prefix, key: "any"),
                let path = try? backend.location(of: key),
                path.hasPrefix("/"), let end = path.lastIndex(of: "/")
            else { return nil }
            var time = timespec()
            return folder_time(String(path[..<end]), &time) == 0 ? time : nil
        }
    }

    extension timespec {
        fileprivate var date: Date {
            Date(timeIntervalSince1970: TimeInterval(tv_sec) + TimeInterval(tv_nsec) / 1_000_000_000)
        }
    }
#endif
