import Foundation
import Lockbox
import Synchronization

/// A backend that uses only what Lockbox makes public: all items are in one JSON file, which is not encrypted, and which one
/// process may use at a time.
final class JSONFileBackend: LockboxBackend {
    private let url: URL
    private let lock = Mutex(())

    init(_ url: URL) { self.url = url }

    var maximumValueSize: Int { 100_000 }

    // MARK: The file

    private func load() throws -> [ItemKey: Row] {
        guard FileManager.default.fileExists(atPath: url.path) else { return [:] }
        // Not init(prefix:key:), which refuses the prefixes of Lockbox's own records.
        let rows = try JSONDecoder().decode([Row].self, from: Data(contentsOf: url)).map {
            (try ItemKey(storedPrefix: $0.prefix, key: $0.key), $0)
        }
        return Dictionary(uniqueKeysWithValues: rows)
    }

    private func save(_ rows: [ItemKey: Row]) throws {
        try JSONEncoder().encode(Array(rows.values)).write(to: url, options: .atomic)
        try synchronize()
    }

    private func synchronize() throws { try FileHandle(forUpdating: url).synchronize() }

    /// Changes some rows, or does nothing if it throws.
    ///
    /// - Parameter change: Runs without the lock, so that it may use the backend. Runs again if another thread has changed one
    ///   of the rows meanwhile.
    private func change(_ keys: [ItemKey], _ change: (inout [ItemKey: Row]) throws -> Void) throws {
        while true {
            let old = try load()
            var new = old
            try change(&new)
            let isDone = try lock.withLock { _ in
                var rows = try load()
                guard keys.allSatisfy({ rows[$0] == old[$0] }) else { return false }
                for key in keys { rows[key] = new[key] }
                try save(rows)
                return true
            }
            if isDone { return }
        }
    }

    // MARK: Required

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        try load()[key]?.item(key, at: now)
    }

    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        var items: [ItemKey: ItemAttributes] = [:]
        try forEachItem(prefix: prefix, now: now, unreadable: { throw $0.error }) { items[$0] = $1 }
        return items
    }

    func prefixes() throws -> Set<String> {
        Set(try load().keys.map(\.prefix)).filter { !ItemKey.isReserved(prefix: $0) }
    }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try self.change([key]) { rows in
            rows[key] = try change(rows[key]?.item(key, at: now)).map { try row($0) }
        }
    }

    func remove(_ key: ItemKey) throws { try change([key]) { $0[key] = nil } }

    // MARK: Faster, or better, than the default

    func write(_ changes: ItemChanges, to key: ItemKey) throws {
        try change([key]) { rows in rows[key] = try row(changes, key, rows[key]) }
    }

    /// Writes the file once.
    func apply(_ operations: [ItemOperation]) throws {
        try ItemOperation.checkKeysDiffer(operations)
        try change(operations.map(\.key)) { rows in
            for operation in operations {
                switch operation {
                case .write(let changes, let key): rows[key] = try row(changes, key, rows[key])
                case .remove(let key): rows[key] = nil
                case .removeReadable(let key, let now):
                    _ = try rows[key]?.item(key, at: now)
                    rows[key] = nil
                }
            }
        }
    }

    /// In one step.
    func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try put(key, under: newKey, policy: policy, now: now) { $0[key] = nil }
    }

    /// In one step.
    func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try put(key, under: newKey, policy: policy, now: now) { _ in }
    }

    private func put(
        _ key: ItemKey,
        under newKey: ItemKey,
        policy: WritePolicy,
        now: Date,
        _ finish: (inout [ItemKey: Row]) -> Void
    ) throws {
        try change([key, newKey]) { rows in
            guard let item = try rows[key]?.item(key, at: now) else {
                throw LockboxError.itemNotFound(key: key.key)
            }
            if key == newKey { return }
            try policy.check(key: newKey.key, exists: rows[newKey]?.item(newKey, at: now) != nil)
            rows[newKey] = try row(item.renamed(to: newKey))
            finish(&rows)
        }
    }

    /// Goes past what cannot be read, and names it.
    func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        for (key, row) in try load() where key.prefix == prefix {
            let attributes: ItemAttributes
            do { attributes = try row.attributes(key) } catch let error as LockboxError {
                let location = Row.location(key)
                try unreadable(UnreadableItem(key: key, record: location, location: location, error: error))
                continue
            }
            if !attributes.isExpired(at: now) { try body(key, attributes) }
        }
    }

    /// The row after a write. Does not need the old value.
    private func row(_ changes: ItemChanges, _ key: ItemKey, _ old: Row?) throws -> Row {
        guard let value = changes.value else {
            return try row(changes.item(after: old?.item(key, at: changes.expiryTime), for: key))
        }
        let policy = changes.options.policy
        var before: ItemAttributes?
        do { before = try old?.attributes(key) } catch {
            // With .replace a damaged item is overwritten, and nothing of it stays.
            if policy != .replace { throw error }
        }
        if before?.isExpired(at: changes.modified) == true { before = nil }
        try policy.check(key: key.key, exists: before != nil)
        return try row(key, value, changes.attributes(after: before, value: value))
    }

    private func row(_ item: StoredItem) throws -> Row { try row(item.key, item.value, item.attributes) }

    private func row(_ key: ItemKey, _ value: ArchivedValue, _ attributes: ItemAttributes) throws -> Row {
        if attributes.size > maximumValueSize {
            throw LockboxError.valueTooLarge(size: attributes.size, limit: maximumValueSize)
        }
        return try Row(key, value, attributes)
    }
}

/// Optional: not every store can do it.
extension JSONFileBackend {
    func location(of key: ItemKey) -> String? { Row.location(key) }

    /// The file can be seen before it is durable.
    func synchronize(prefix: String) throws {
        if FileManager.default.fileExists(atPath: url.path) { try synchronize() }
    }

    func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport {
        var report = VerifyReport()
        let rows = try load()
        for (number, (key, row)) in rows.enumerated() {
            do {
                _ = try row.item(key, at: nil)
                report.intactCount += 1
            } catch let error as LockboxError {
                report.findings.append(StoreFinding(error, location: Row.location(key)))
            }
            progress(StoreProgress(completed: number + 1, total: rows.count))
        }
        return report
    }
}
