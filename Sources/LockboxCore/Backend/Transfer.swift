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
        var transfer = Transfer(from: self, to: other, existing, isMove: false)
        return try transfer.run(prefix, progress)
    }

    /// Moves items to another backend, with their attributes and accessibility classes. Expired items are included.
    ///
    /// An item is removed from this backend only after it has been read back from the destination, and only if
    /// it has not been written meanwhile. An item is never absent from both backends; beside a move in the opposite direction, that
    /// holds only between ``SealedBackend``s. An interrupted move can be repeated. An item that another writer removes after it has
    /// been read may be in the destination all the same.
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
        var transfer = Transfer(from: self, to: other, existing, isMove: true)
        return try transfer.run(prefix, progress)
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
    private let source: any LockboxBackend
    private let destination: any LockboxBackend
    private let policy: ExistingItemPolicy
    private let isMove: Bool
    private var mover: Mover
    private var report = TransferReport()
    /// The items of a copy that the destination had already.
    private var found: Set<ItemKey> = []
    /// Whether source and destination are two stores, or nil if that is not known yet. If they are one, an item that is absent was
    /// removed after it had been read, and a batch would bring it back.
    private var areTwoStores: Bool?

    /// Expired items are transferred too: dropping them is up to the caller.
    private let now: Date? = nil
    /// In the destination, an expired item counts as absent.
    private let today = world.date

    init(
        from source: any LockboxBackend,
        to destination: any LockboxBackend,
        _ policy: ExistingItemPolicy,
        isMove: Bool
    ) {
        (self.source, self.destination, self.policy, self.isMove) = (source, destination, policy, isMove)
        mover = Mover(to: destination, now: today)
    }

    mutating func run(_ prefix: String?, _ progress: (StoreProgress) -> Void) throws -> TransferReport {
        let keys = try keys(prefix)
        if isMove { try checkAreTwoStores() }
        if policy == .fail { try keys.forEach(checkIsFree) }
        var completed = 0
        transfers: while completed < keys.count {
            for (key, item, isFound) in readAndAdd(keys[completed...]) {
                do {
                    // The item is nil if it was removed after it was listed.
                    if let original = try item.get() {
                        try isMove ? move(original) : copy(original.item, isFound: isFound)
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
        synchronize()
        return report
    }

    private mutating func keys(_ prefix: String?) throws -> [ItemKey] {
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
    private mutating func checkAreTwoStores() throws {
        areTwoStores = try !destination.isSameStore(as: source, now: today)
        if areTwoStores == true { return }
        throw LockboxError.invalidKey(reason: "a store cannot be moved into itself")
    }

    private func checkIsFree(_ key: ItemKey) throws {
        guard let old = try destination.item(for: key, now: today) else { return }
        if try source.item(for: key, now: now)?.isSame(as: old) != true {
            throw LockboxError.duplicateItem(key: key.key)
        }
    }

    // MARK: One item after the other

    private typealias Reading = (key: ItemKey, item: Result<Original?, any Error>, isFound: Bool)

    /// Reads the next items, and adds those that the destination has not.
    private mutating func readAndAdd(_ keys: ArraySlice<ItemKey>) -> [Reading] {
        var read: [Reading] = []
        var new: [StoredItem] = []
        var size = 0
        for key in keys.prefix(ItemOperation.batch) where size < ItemOperation.batchSize {
            var reading: Reading = (key, Result { try source.original(for: key, now: now) }, false)
            if case .success(let item?) = reading.item.map({ $0?.item }) {
                size += item.attributes.size
                // An expired item is in the way: by the new item's date it may not have expired.
                switch Result(catching: { try destination.item(for: key, now: now) }) {
                case .success(nil): new.append(item)
                case .success(let old?): reading.isFound = old.isSame(as: item)
                case .failure(let error): if error.isOutage { reading.item = .failure(error) }
                }
            }
            read.append(reading)
            if case .failure(let error) = reading.item, error.isOutage { break }
        }
        if new.count > 1, areTwoStores == nil {
            areTwoStores = try? !destination.isSameStore(as: source, now: today)
        }
        mover.add(areTwoStores == true ? new : [])
        return read
    }

    private mutating func move(_ original: Original) throws {
        let item = original.item
        var left: Original? = original
        for _ in 0..<16 {
            guard let original = left, original.item == item else { break }
            do {
                guard try put(item, over: nil) else { return report.keptKeys.append(item.key) }
            } catch is SourceChanged { break }
            if try original.remove() { return report.transferredKeys.append(item.key) }
            // It was written again as it is: by a rotation, or by a move of what this one has stored.
            mover.add([])
            left = try source.original(for: item.key, now: now)
        }
        throw LockboxError.conflict(record: item.key.location)
    }

    /// - Parameter isFound: Whether the destination had an equal item.
    private mutating func copy(_ item: StoredItem, isFound: Bool) throws {
        var (item, copied): (StoredItem, StoredItem?) = (item, nil)
        var isThere = try isFound && mover.holds(item)
        if isThere { found.insert(item.key) }
        for _ in 0..<16 {
            do {
                if !isThere {
                    guard try put(item, over: copied) else { return report.keptKeys.append(item.key) }
                    (copied, isThere) = (item, true)
                }
            } catch is SourceChanged {}
            // Another copy may have brought a newer item, over which this one was written.
            let current = try source.item(for: item.key, now: now)
            if isThere, current == nil || current == item { return report.transferredKeys.append(item.key) }
            guard let current else { return }
            (item, isThere) = (current, false)
        }
        throw LockboxError.conflict(record: item.key.location)
    }

    private struct SourceChanged: Error {}

    /// Returns false if the destination has a different item, which the policy keeps.
    ///
    /// - Parameter copied: What this call has written there before.
    private func put(_ item: StoredItem, over copied: StoredItem?) throws -> Bool {
        try mover.put(item) { old in
            // The two may be one store.
            guard try source.item(for: item.key, now: now) == item else { throw SourceChanged() }
            if old?.isSame(as: item) ?? true || old == copied { return true }
            if policy == .fail { throw LockboxError.duplicateItem(key: item.key.key) }
            return policy == .replace
        }
    }

    /// The writer of an item that was there already may have been killed before the item was durable.
    private mutating func synchronize() {
        var failed: [ItemKey: any Error] = [:]
        for prefix in Set(found.map(\.prefix)).sorted() {
            do { try LockboxError.ifSupported { try destination.synchronize(prefix: prefix) } } catch {
                for key in found where key.prefix == prefix { failed[key] = error }
            }
        }
        report.transferredKeys.removeAll { failed[$0] != nil }
        report.failures.merge(failed) { $1 }
    }
}

extension Error {
    /// Whether the backend does not answer. Then each call waits for the whole time limit.
    fileprivate var isOutage: Bool { (self as? LockboxError)?.code == .notReachable }
}
