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
        var next = 0
        for (index, key) in keys.enumerated() {
            if index == next { next += putTogether(keys[index...]) }
            do { try transfer(key, removing, &report) } catch { report.failed[key] = error }
            progress(StoreProgress(completed: index + 1, total: keys.count))
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

    /// Writes the next items in one batch, which is faster than one by one. If it is refused, for example because one
    /// of them exists, they are written one by one. Returns their number.
    private func putTogether(_ keys: ArraySlice<ItemKey>) -> Int {
        var items: [StoredItem] = []
        var (count, size) = (0, 0)
        for key in keys.prefix(ItemOperation.batch) where size < ItemOperation.batchSize {
            count += 1
            guard let item = try? source.item(for: key, now: now) else { continue }
            size += item.attributes.size
            if (try? destination.item(for: key, now: now)) != item { items.append(item) }
        }
        if items.count > 1 { try? destination.apply(items.map(ItemOperation.add)) }
        return count
    }

    private func transfer(_ key: ItemKey, _ removing: Bool, _ report: inout TransferReport) throws {
        // Nil if the item was removed after it was listed.
        guard let item = try source.item(for: key, now: now) else { return }
        guard try destination.item(for: key, now: now) == item || put(item) else {
            report.kept.append(key)
            return
        }
        guard try destination.item(for: key, now: now) == item else {
            throw LockboxError.corrupt(
                record: "the item for the key \(String(reflecting: key.key))",
                reason: "the other backend returned it changed"
            )
        }
        if removing {
            try source.update(key, now: now) { current in
                if let current, current != item {
                    throw LockboxError.corrupt(
                        record: "the item for the key \(String(reflecting: key.key))",
                        reason: "it was changed during the move and is now in both backends"
                    )
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
            if old != nil, policy == .fail { throw LockboxError.duplicateItem(key: item.key.key) }
            isPut = old == nil || policy == .replace
            return isPut ? item : old
        }
        return isPut
    }
}
