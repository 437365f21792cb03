#if SecretService
    import CSystemd
    import LockboxCore
    import LockboxPlatform

    /// The names and attributes of one prefix's items, kept in memory. To read all of them takes as long as to decrypt all of them, so after
    /// a change only what has changed is read.
    ///
    /// The kernel tells which files of the folder other processes have changed, before their calls return. Where it cannot, on a
    /// network, the folder's time tells that there was a change.
    final class ItemIndex {
        /// A change leaves another time at the folder. Two within one tick of the kernel's clock, at most 10 ms, do not, and on some file
        /// systems two within one or two seconds.
        private static func tick(_ time: timespec) -> TimeInterval { time.tv_nsec == 0 ? 2 : 0.05 }

        private let backend: any LockboxBackend
        private let prefix: String
        /// The items as they were read last, with this process's changes since.
        private(set) var known: [ItemKey: ItemAttributes] = [:]
        /// Which items have an attribute, by its name and its text. For Swift, texts in two forms of Unicode are one.
        private var holders: [String: [String: Set<ItemKey>]] = [:]
        /// The keys by the names of their files.
        private var keys: [String: ItemKey] = [:]
        private var watch: FolderEvents?
        /// The folder's time when the items were read, if no later change can have the same. Only without a watch.
        private var time: timespec?

        init(_ backend: any LockboxBackend, prefix: String) {
            self.backend = backend
            self.prefix = prefix
        }

        /// Returns the items that have all of these attributes, also what another process has changed before the call. Damaged ones
        /// are left out, and expired ones.
        func items(with wanted: [String: String] = [:]) throws -> [ItemKey: ItemAttributes] {
            let now = Date()
            if try !refresh() { try readAll(now) }
            let rarest = wanted.map { holders[$0]?[$1] ?? [] }.min { $0.count < $1.count }
            let found =
                rarest.map { keys in Dictionary(uniqueKeysWithValues: keys.map { ($0, known[$0]!) }) }
                ?? known
            return found.filter { !$1.isExpired(at: now) && matches($1.searched, wanted) }
        }

        private func matches(_ searched: [String: String], _ wanted: [String: String]) -> Bool {
            wanted.allSatisfy { name, text in
                searched[name].map { $0.utf8.elementsEqual(text.utf8) } ?? false
            }
        }

        /// Adds what this process has changed. What others have changed at the same time shows in ``items()``.
        func note(_ key: ItemKey, _ attributes: ItemAttributes?) {
            for (name, text) in known[key]?.searched ?? [:] {
                holders[name]?[text]?.remove(key)
                if holders[name]?[text]?.isEmpty == true { holders[name]?[text] = nil }
            }
            for (name, text) in attributes?.searched ?? [:] {
                holders[name, default: [:]][text, default: []].insert(key)
            }
            known[key] = attributes
            if let path = try? backend.location(of: key) {
                keys[Self.name(path)] = attributes == nil ? nil : key
            }
        }

        /// Reads what has changed. Returns whether that is known.
        private func refresh() throws -> Bool {
            guard let folder = folder else { return false }
            guard let watch, watch.isOf(folder) else {
                return time.map { isEqual($0, Self.time(folder)) } ?? false
            }
            guard let names = watch.changedNames() else { return false }
            for name in names where name != "lock" {
                let key = keys[name]
                if let key, let attributes = try? backend.attributes(for: key, now: nil) {
                    note(key, attributes)
                } else if FolderEvents.exists("\(folder)/\(name)") {
                    // Another's new item, of which no key is known, or one that cannot be read for a moment.
                    return false
                } else if let key {
                    note(key, nil)
                }
            }
            return true
        }

        private func readAll(_ now: Date) throws {
            let folder = folder
            // Before it is read, so that no later change is missed.
            watch = folder.flatMap { FolderEvents($0) }
            let changed = watch == nil ? folder.flatMap(Self.time) : nil
            (known, holders, keys, time) = ([:], [:], [:], nil)
            var isWhole = true
            try backend.forEachItem(prefix: prefix, now: nil, unreadable: { _ in isWhole = false }) {
                note($0, $1)
            }
            if !isWhole { watch = nil }
            if isWhole, let changed, now.timeIntervalSince(changed.date) > Self.tick(changed) {
                time = changed
            }
        }

        /// The folder of the items, or nil if they are not in files.
        private var folder: String? {
            guard let key = try? ItemKey(prefix: prefix, key: "any"),
                let path = try? backend.location(of: key),
                path.hasPrefix("/")
            else { return nil }
            return String(path.dropLast(Self.name(path).utf8.count + 1))
        }

        private static func name(_ path: String) -> String {
            path.lastIndex(of: "/").map { String(path[path.index(after: $0)...]) } ?? path
        }

        private static func time(_ folder: String) -> timespec? {
            var time = timespec()
            return folder_time(folder, &time) == 0 ? time : nil
        }

        private func isEqual(_ one: timespec, _ other: timespec?) -> Bool {
            one.tv_sec == other?.tv_sec && one.tv_nsec == other?.tv_nsec
        }
    }

    /// The changes of a folder's files, as inotify(7) has them.
    private final class FolderEvents {
        private let file: CInt
        private let identity: (dev_t, ino_t)

        /// Fails for a folder that is not there, or on a network.
        init?(_ folder: String) {
            var status = stat()
            guard stat(folder, &status) == 0 else { return nil }
            identity = (status.st_dev, status.st_ino)
            file = watch_local_folder(folder)
            if file < 0 { return nil }
        }

        /// Whether the path still leads to the folder.
        func isOf(_ folder: String) -> Bool {
            var status = stat()
            return stat(folder, &status) == 0 && (status.st_dev, status.st_ino) == identity
        }

        deinit { close(file) }

        /// Returns the names of what has changed since the last call, or nil if they are not known.
        func changedNames() -> Set<String>? {
            var names: Set<String> = []
            var buffer = [CChar](repeating: 0, count: 64 << 10)
            while true {
                let length = read(file, &buffer, buffer.count)
                if length < 0, errno == EINTR { continue }
                if length <= 0 { return length < 0 && errno == EAGAIN ? names : nil }
                var offset = 0
                while offset < length {
                    guard let name = watched_name(buffer, &offset) else { return nil }
                    names.insert(String(cString: name))
                }
            }
        }

        static func exists(_ path: String) -> Bool {
            var status = stat()
            return lstat(path, &status) == 0 || errno != ENOENT
        }
    }

    extension ItemAttributes {
        fileprivate var searched: [String: String] { AttributeNames.withSchema(searchable) }
    }

    extension timespec {
        fileprivate var date: Date {
            Date(timeIntervalSince1970: TimeInterval(tv_sec) + TimeInterval(tv_nsec) / 1_000_000_000)
        }
    }
#endif
