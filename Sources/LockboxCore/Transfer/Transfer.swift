import LockboxPlatform

/// A copy or move of items from one backend to another.
struct Transfer {
    let source: any LockboxBackend
    let destination: any LockboxBackend
    let policy: ImportPolicy

    /// Expired items are transferred too: dropping them is up to the caller.
    private let now: Date? = nil
    /// In the destination, an expired item counts as absent.
    private let today = Date()

    func run(_ prefix: String?, removing: Bool, _ progress: (StoreProgress) -> Void) throws -> TransferReport
    {
        var report = TransferReport()
        let keys = try keys(prefix, &report)
        if removing { try checkIsAnotherStore() }
        if policy == .fail { try keys.forEach(checkIsFree) }
        var completed = 0
        while completed < keys.count {
            let (read, isDurable) = readAndPut(keys[completed...])
            for (key, item) in read {
                do {
                    // Nil if the item was removed after it was listed.
                    if let item = try item.get() {
                        try transfer(item, isDurable: isDurable.contains(key), removing, &report)
                    }
                } catch {
                    report.failed[key] = error
                }
                completed += 1
                progress(StoreProgress(completed: completed, total: keys.count))
            }
        }
        return report
    }

    private func keys(_ prefix: String?, _ report: inout TransferReport) throws -> [ItemKey] {
        var unreadable: [UnreadableItem] = []
        defer { report.unreadable = unreadable }
        let prefixes = try prefix.map { [$0] } ?? source.prefixes { unreadable.append($0) }.sorted()
        return try prefixes.flatMap { prefix in
            var keys: [ItemKey] = []
            try source.forEachItem(prefix: prefix, now: now, unreadable: { unreadable.append($0) }) {
                key,
                _ in
                keys.append(key)
            }
            return keys.sorted { $0.key < $1.key }
        }
    }

    /// A store that is moved into itself would end up empty.
    private func checkIsAnotherStore() throws {
        let isSame = try destination.withProbe(.alwaysThisDeviceOnly, now: today) { probe in
            try source.value(for: probe.key, now: now) == probe.value
        }
        if isSame { throw LockboxError.invalidKey(reason: "a store cannot be moved into itself") }
    }

    private func checkIsFree(_ key: ItemKey) throws {
        guard let old = try destination.item(for: key, now: today) else { return }
        if try source.item(for: key, now: now) != old { throw LockboxError.duplicateItem(key: key.key) }
    }

    private typealias Reading = (key: ItemKey, item: Result<StoredItem?, any Error>)

    /// Reads the next items, and writes them in one batch, which is faster than one by one. If the batch is refused,
    /// for example because one of them exists, `transfer` writes them one by one.
    ///
    /// - Returns: The items, and the keys of those that are durable in the destination. After an error, none counts
    ///   as durable, although it may be there.
    private func readAndPut(_ keys: ArraySlice<ItemKey>) -> (read: [Reading], isDurable: Set<ItemKey>) {
        var read: [Reading] = []
        var items: [StoredItem] = []
        var size = 0
        for key in keys.prefix(ItemOperation.batch) where size < ItemOperation.batchSize {
            read.append((key, Result { try source.item(for: key, now: now) }))
            guard case .success(let item?) = read[read.count - 1].item else { continue }
            size += item.attributes.size
            // An expired item is in the way: by the new item's date it may not have expired.
            if case .some(.none) = try? destination.item(for: key, now: now) { items.append(item) }
        }
        guard items.count > 1, (try? destination.apply(items.map(ItemOperation.add))) != nil else {
            return (read, [])
        }
        return (read, Set(items.map(\.key)))
    }

    private func transfer(
        _ item: StoredItem,
        isDurable: Bool,
        _ removing: Bool,
        _ report: inout TransferReport
    ) throws {
        let key = item.key
        // Before an item is removed, an equal one is written again: whoever wrote it may have been killed before it
        // was durable.
        let isThere = try isDurable || !removing && destination.item(for: key, now: now) == item
        guard try isThere || put(item) else {
            report.kept.append(key)
            return
        }
        guard try destination.item(for: key, now: now) == item else {
            throw destination.errorOfReadingBack(item, now: today)
        }
        if removing {
            try source.update(key, now: now) { current in
                if let current, current != item {
                    throw LockboxError.conflict(record: key.location)
                }
                return nil
            }
        }
        report.transferred.append(key)
    }

    /// Returns false if the destination has a different item, which the policy keeps.
    private func put(_ item: StoredItem) throws -> Bool {
        var isPut = false
        try destination.update(item.key, now: today) { old in
            if old != nil, old != item, policy == .fail {
                throw LockboxError.duplicateItem(key: item.key.key)
            }
            isPut = old == nil || old == item || policy == .replace
            return isPut ? item : old
        }
        return isPut
    }
}
