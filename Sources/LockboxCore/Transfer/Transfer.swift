import LockboxPlatform

/// A copy or move of items from one backend to another.
struct Transfer {
    let source: any LockboxBackend
    let destination: any LockboxBackend
    let policy: ExistingItemPolicy

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
        var found: Set<ItemKey> = []
        var completed = 0
        transfers: while completed < keys.count {
            let (read, batch, isDurable) = readAndPut(keys[completed...])
            for (key, item) in read {
                do {
                    // Nil if the item was removed after it was listed.
                    if let item = try item.get() {
                        let isFound = try !removing && !batch.contains(key) && isThere(item)
                        if isFound { found.insert(key) }
                        let isDone = isFound || isDurable && batch.contains(key)
                        try transfer(item, isDone: isDone, removing, &report)
                    }
                } catch let error where error.isOutage {
                    // Each of the others would be waited for as long.
                    for key in keys[completed...] { report.failures[key] = error }
                    break transfers
                } catch {
                    report.failures[key] = error
                }
                completed += 1
                progress(StoreProgress(completed: completed, total: keys.count))
            }
        }
        synchronize(found, &report)
        return report
    }

    private func isThere(_ item: StoredItem) throws -> Bool {
        try destination.item(for: item.key, now: now) == item
    }

    /// Whoever wrote the items that were there already may have been killed before they were durable.
    private func synchronize(_ found: Set<ItemKey>, _ report: inout TransferReport) {
        guard let destination = destination as? any SynchronizingBackend else { return }
        var failed: [ItemKey: any Error] = [:]
        for prefix in Set(found.map(\.prefix)).sorted() {
            do { try destination.synchronize(prefix: prefix) } catch {
                for key in found where key.prefix == prefix { failed[key] = error }
            }
        }
        report.transferredKeys.removeAll { failed[$0] != nil }
        report.failures.merge(failed) { $1 }
    }

    private func keys(_ prefix: String?, _ report: inout TransferReport) throws -> [ItemKey] {
        var unreadable: [UnreadableItem] = []
        defer { report.unreadableItems = unreadable }
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
    /// - Returns: The items, the keys of those in the batch, and whether these are durable in the destination. After an
    ///   error, none counts as durable, although it may be there.
    private func readAndPut(_ keys: ArraySlice<ItemKey>) -> (
        read: [Reading], batch: Set<ItemKey>, isDurable: Bool
    ) {
        var read: [Reading] = []
        var items: [StoredItem] = []
        var size = 0
        for key in keys.prefix(ItemOperation.batch) where size < ItemOperation.batchSize {
            let result = Result { try source.item(for: key, now: now) }
            read.append((key, result))
            if result.isOutage { break }
            guard case .success(let item?) = result else { continue }
            size += item.attributes.size
            // An expired item is in the way: by the new item's date it may not have expired.
            let old = Result { try destination.item(for: key, now: now) }
            if old.isOutage {
                read[read.count - 1].item = old
                break
            }
            if case .success(nil) = old { items.append(item) }
        }
        guard items.count > 1 else { return (read, [], false) }
        let isDurable = (try? destination.apply(items.map(ItemOperation.add))) != nil
        return (read, Set(items.map(\.key)), isDurable)
    }

    /// - Parameter isDone: Whether the item need not be written. Before one is removed from the source, and after a batch
    ///   was refused, an equal one is written again: it may not be durable.
    private func transfer(
        _ item: StoredItem,
        isDone: Bool,
        _ removing: Bool,
        _ report: inout TransferReport
    ) throws {
        let key = item.key
        guard try isDone || put(item) else {
            report.keptKeys.append(key)
            return
        }
        guard try isThere(item) else {
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
        report.transferredKeys.append(key)
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

extension Error {
    /// Whether nobody answers. Then each call waits for the whole time limit.
    fileprivate var isOutage: Bool { (self as? LockboxError)?.code == .notReachable }
}

extension Result where Failure == any Error {
    fileprivate var isOutage: Bool {
        if case .failure(let error) = self { error.isOutage } else { false }
    }
}
