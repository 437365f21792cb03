import LockboxPlatform

extension LockboxBackend {
    /// Copies items to another backend, with their attributes and accessibility classes. Expired items are included.
    ///
    /// The copy can be repeated: items that are already identical in the destination are not written again, but are
    /// durable, too, when it returns. No moment is the same for all of them: each copy is as the item was when the call looked at it
    /// last, after the copy had been written. An item that another writer removes after it has been read may be in the destination
    /// all the same.
    ///
    /// - Parameters:
    ///   - other: The destination.
    ///   - prefix: The key prefix whose items are copied. If `nil`, all items are.
    ///   - existing: How to treat a different, unexpired item under the same key in the destination.
    ///   - progress: Called after each item.
    /// - Returns: The outcome for each item. An error that concerns a single item is reported here and does not
    ///   end the copy. For an item that other writers change all the time it is ``LockboxError/conflict(record:)``.
    /// - Throws: With the policy ``ExistingItemPolicy/fail``, ``LockboxError/duplicateItem(key:)`` before any item is
    ///   written. Any error that prevents the items from being listed.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func copyItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ExistingItemPolicy = .keep,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> TransferReport {
        try Transfer(source: self, destination: other, policy: existing).run(
            prefix,
            removing: false,
            progress
        )
    }

    /// Moves items to another backend, with their attributes and accessibility classes. Expired items are included.
    ///
    /// An item is removed from this backend only after it has been read back from the destination, and only if
    /// it has not changed meanwhile. An item is never absent from both backends. An interrupted move can be
    /// repeated. An item that another writer removes after it has been read may be in the destination all the same.
    ///
    /// - Parameters:
    ///   - other: The destination.
    ///   - prefix: The key prefix whose items are moved. If `nil`, all items are.
    ///   - existing: How to treat a different, unexpired item under the same key in the destination.
    ///   - progress: Called after each item.
    /// - Returns: The outcome for each item. Items that were not transferred stay in this backend. If another writer
    ///   changes an item during the move, its error is ``LockboxError/conflict(record:)``.
    /// - Throws: With the policy ``ExistingItemPolicy/fail``, ``LockboxError/duplicateItem(key:)`` before any item is
    ///   written. ``LockboxError/invalidKey(reason:)`` if both backends are the same store. Any error that
    ///   prevents the items from being listed.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func moveItems(
        to other: any LockboxBackend,
        prefix: String? = nil,
        existing: ExistingItemPolicy = .keep,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> TransferReport {
        try Transfer(source: self, destination: other, policy: existing).run(prefix, removing: true, progress)
    }
}

/// How an import, a copy or a move treats an item that already exists in the destination with a different value
/// or attributes.
///
/// An expired item in the destination counts as absent.
public enum ExistingItemPolicy: String, Sendable, Hashable, Codable, CaseIterable {
    /// Keep the existing item. An import of a backup replaces one that is damaged.
    case keep
    /// Overwrite the existing item.
    case replace
    /// Throw ``LockboxError/duplicateItem(key:)`` before any item is written.
    case fail
}

/// A copy or move of items from one backend to another.
struct Transfer {
    let source: any LockboxBackend
    let destination: any LockboxBackend
    let policy: ExistingItemPolicy

    /// Expired items are transferred too: dropping them is up to the caller.
    private let now: Date? = nil
    /// In the destination, an expired item counts as absent.
    private let today = world.date

    func run(_ prefix: String?, removing: Bool, _ progress: (StoreProgress) -> Void) throws -> TransferReport
    {
        var report = TransferReport()
        let keys = try keys(prefix, &report)
        if removing { try checkIsAnotherStore() }
        if policy == .fail { try keys.forEach(checkIsFree) }
        var isAnotherStore: Bool? = removing ? true : nil
        var found: Set<ItemKey> = []
        var completed = 0
        transfers: while completed < keys.count {
            let (read, batch, isDurable) = readAndPut(keys[completed...], &isAnotherStore)
            for (key, item) in read {
                do {
                    // The item is nil if it was removed after it was listed.
                    if let item = try item.get() {
                        let isFound = try !removing && !batch.contains(key) && isThere(item)
                        if isFound { found.insert(key) }
                        let isWritten = isDurable && batch.contains(key)
                        try removing
                            ? move(item, isDone: isWritten, &report)
                            : copy(item, isFound: isFound, isWritten: isWritten, &report)
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

    /// The writer of an item that was there already may have been killed before the item was durable.
    private func synchronize(_ found: Set<ItemKey>, _ report: inout TransferReport) {
        var failed: [ItemKey: any Error] = [:]
        for prefix in Set(found.map(\.prefix)).sorted() {
            do { try LockboxError.ifSupported { try destination.synchronize(prefix: prefix) } } catch {
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
        guard try destination.isSameStore(as: source, now: today) else { return }
        throw LockboxError.invalidKey(reason: "a store cannot be moved into itself")
    }

    private func checkIsFree(_ key: ItemKey) throws {
        guard let old = try destination.item(for: key, now: today) else { return }
        if try source.item(for: key, now: now) != old { throw LockboxError.duplicateItem(key: key.key) }
    }

    private typealias Reading = (key: ItemKey, item: Result<StoredItem?, any Error>)

    /// Reads the next items, and writes them in one batch, which is faster than one by one. If the batch is refused,
    /// for example because one of them exists, `transfer` writes them one by one.
    ///
    /// - Parameter isAnotherStore: Whether source and destination are two stores, or nil if that is not known yet. If they are one,
    ///   an item that is absent was removed after it had been read, and a batch would bring it back.
    /// - Returns: The items, the keys of those in the batch, and whether these are durable in the destination. After an
    ///   error, none counts as durable, although it may be there.
    private func readAndPut(_ keys: ArraySlice<ItemKey>, _ isAnotherStore: inout Bool?) -> (
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
        isAnotherStore = isAnotherStore ?? (try? !destination.isSameStore(as: source, now: today))
        guard isAnotherStore == true else { return (read, [], false) }
        let isDurable = (try? destination.apply(items.map(ItemOperation.add))) != nil
        return (read, Set(items.map(\.key)), isDurable)
    }

    /// - Parameter isDone: Whether the item need not be written. After a batch was refused, an equal one is written again: it may
    ///   not be durable.
    private func move(_ item: StoredItem, isDone: Bool, _ report: inout TransferReport) throws {
        do {
            guard try isDone || put(item, over: nil) else { return report.keptKeys.append(item.key) }
            try checkIsThere(item)
            try source.update(item.key, now: now) { current in
                if let current, current != item { throw SourceChanged() }
                return nil
            }
        } catch is SourceChanged { throw LockboxError.conflict(record: item.key.location) }
        report.transferredKeys.append(item.key)
    }

    /// - Parameters:
    ///   - isFound: Whether the destination had an equal item.
    ///   - isWritten: Whether a batch has written the item.
    private func copy(
        _ item: StoredItem,
        isFound: Bool,
        isWritten: Bool,
        _ report: inout TransferReport
    ) throws {
        var copied = isWritten ? item : nil
        var (item, isDone) = (item, isFound || isWritten)
        for _ in 0..<16 {
            do {
                if !isDone {
                    guard try put(item, over: copied) else { return report.keptKeys.append(item.key) }
                    copied = item
                }
                try checkIsThere(item)
                isDone = true
            } catch is SourceChanged {}
            // Another copy may have brought a newer item, over which this one was written.
            let current = try source.item(for: item.key, now: now)
            if isDone, current == nil || current == item { return report.transferredKeys.append(item.key) }
            guard let current else { return }
            (item, isDone) = (current, false)
        }
        throw LockboxError.conflict(record: item.key.location)
    }

    private struct SourceChanged: Error {}

    private func checkIsThere(_ item: StoredItem) throws {
        if try !isThere(item) { throw destination.errorOfReadingBack(item, now: today) }
    }

    /// Returns false if the destination has a different item, which the policy keeps.
    ///
    /// - Parameter copied: What this call has written there before.
    private func put(_ item: StoredItem, over copied: StoredItem?) throws -> Bool {
        var isPut = false
        try destination.update(item.key, now: today) { old in
            // The two may be one store.
            guard try source.item(for: item.key, now: now) == item else { throw SourceChanged() }
            let isFree = old == nil || old == item || old == copied
            if !isFree, policy == .fail { throw LockboxError.duplicateItem(key: item.key.key) }
            isPut = isFree || policy == .replace
            return isPut ? item : old
        }
        return isPut
    }
}

extension Error {
    /// Whether the backend does not answer. Then each call waits for the whole time limit.
    fileprivate var isOutage: Bool { (self as? LockboxError)?.code == .notReachable }
}

extension Result where Failure == any Error {
    fileprivate var isOutage: Bool {
        if case .failure(let error) = self { error.isOutage } else { false }
    }
}

/// The result of ``LockboxBackend``'s `copyItems` or `moveItems`.
public struct TransferReport: StoreReport {
    /// The items that are now in the destination, written by this call or an earlier one.
    public var transferredKeys: [ItemKey] = []

    /// The items that were not transferred, because the destination keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``). After a move, they are still in the source.
    public var keptKeys: [ItemKey] = []

    /// The items that could not be read, written or removed, and why. They stay in the source.
    public var failures: [ItemKey: any Error] = [:]

    /// The items of the source that a list cannot read. They stay in the source.
    public var unreadableItems: [UnreadableItem] = []

    /// The items that could not be read, written or removed.
    public var findings: [StoreFinding] {
        unreadableItems.map(\.finding)
            + failures.sorted { $0.key.key < $1.key.key }.map { key, error in
                let location = key.location
                if let error = error as? LockboxError { return StoreFinding(error, location: location) }
                // An error of the app's own backend may quote a value, so only its type is shown.
                return StoreFinding(kind: .damaged, location: location, reason: "\(type(of: error))")
            }
    }
}

extension TransferReport: Undescribed {
    /// How many items were transferred and kept, and the findings. An error of the app's own backend may quote a value, so only
    /// its type is shown.
    package var summary: String {
        "TransferReport(\(transferredKeys.count) transferred, \(keptKeys.count) kept, findings: \(findings))"
    }
}
