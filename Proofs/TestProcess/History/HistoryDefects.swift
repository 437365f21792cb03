import Foundation

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The defect of a ``DefectiveHistoryEngine``: Proofs/History/test shows that the checker sees each.
enum HistoryDefect: String, CaseIterable {
    /// An update depends on what was there before it had the lock.
    case updateReadsEarly
    /// Lists leave out an item that is replaced meanwhile.
    case listOmits
    /// An import that keeps what is there overwrites what is written between its look and its write.
    case importOverwrites
    /// Reads are answered from what the process read a moment ago.
    case staleCache
    /// A write returns before it is made, and a kill comes between.
    case lostAtKill
    /// The item a removal took comes back a moment later.
    case removalUndone
    /// A write that is only to add overwrites.
    case addOverwrites
    /// A move removes the item before it writes it under the new key.
    case moveRemovesFirst
}

struct DefectiveHistoryEngine: HistoryEngine {
    private let engine: any HistoryEngine
    private let defect: HistoryDefect
    let items: any LockboxBackend

    init(_ engine: any HistoryEngine, _ defect: HistoryDefect) {
        self.engine = engine
        self.defect = defect
        items = DefectiveHistoryItems(engine.items, defect)
    }

    func rotate(pause: () -> Void) throws { try engine.rotate(pause: pause) }
    func setPasscode(_ passcode: String) throws { try engine.setPasscode(passcode) }
    func changePasscode(to passcode: String) throws { try engine.changePasscode(to: passcode) }
    func removePasscode() throws { try engine.removePasscode() }
    func unlock(_ passcode: String) throws { try engine.unlock(passcode) }
    func lock() throws { try engine.lock() }
    func findings() throws -> [String] { try engine.findings() }

    func moveObject(_ key: String, to newKey: ItemKey, _ policy: WritePolicy, in lockbox: Lockbox) throws {
        guard defect == .moveRemovesFirst else {
            return try engine.moveObject(key, to: newKey, policy, in: lockbox)
        }
        let old = try lockbox.itemKey(key)
        guard let item = try lockbox.backend.item(for: old, now: lockbox.now()) else {
            throw LockboxError.itemNotFound(key: key)
        }
        try engine.items.update(old, now: nil) { current in current == item ? nil : current }
        try engine.items.update(newKey, now: lockbox.now()) { current in
            try policy.check(key: newKey.key, exists: current != nil)
            return StoredItem(key: newKey, value: item.value, checked: item.attributes)
        }
    }

    func export(to path: String) throws -> (items: [StoredItem], leftOut: [ItemKey]) {
        try engine.export(to: path)
    }

    func importBackup(from path: String, existing: ExistingItemPolicy) throws -> [ItemKey] {
        guard defect == .importOverwrites, existing == .keep else {
            return try engine.importBackup(from: path, existing: existing)
        }
        // A store of its own stands in for the file, which only an engine can read.
        let copy = try historyEngine("files:\(path).copy", defect: nil, delays: 0, failures: 0)
        defer { try? FileManager.default.removeItem(atPath: "\(path).copy") }
        _ = try copy.importBackup(from: path, existing: .keep)
        var kept: [ItemKey] = []
        for prefix in try copy.items.prefixes() {
            for key in try copy.items.attributes(prefix: prefix, now: nil).keys {
                if try !add(key, from: copy.items) { kept.append(key) }
            }
        }
        return kept
    }

    private func add(_ key: ItemKey, from source: any LockboxBackend) throws -> Bool {
        let now: Date? = nil
        let item = try source.item(for: key, now: now)
        if let current = try engine.items.item(for: key, now: now) { return current == item }
        usleep(1000)
        try engine.items.update(key, now: now) { _ in item }
        return true
    }
}

private final class DefectiveHistoryItems: LockboxBackend {
    private let wrapped: any LockboxBackend
    private let defect: HistoryDefect
    private let cache = Protected<[ItemKey: (item: StoredItem?, read: ContinuousClock.Instant)]>([:])
    /// Acknowledged, and not written.
    private let unwritten = Protected<[ItemKey: StoredItem]>([:])

    init(_ wrapped: any LockboxBackend, _ defect: HistoryDefect) {
        self.wrapped = wrapped
        self.defect = defect
    }

    func write(_ changes: ItemChanges, to key: ItemKey) throws {
        var changes = changes
        let policy = changes.options.policy
        if defect == .addOverwrites, policy == .addOnly { changes.options.policy = .replace }
        guard defect == .lostAtKill else { return try wrapped.write(changes, to: key) }
        try unwritten.withLock { unwritten in
            try Self.flush(&unwritten, to: wrapped)
            guard policy == .replace, try wrapped.attributes(for: key, now: changes.modified) == nil else {
                return try wrapped.write(changes, to: key)
            }
            unwritten[key] = try changes.item(after: nil, for: key)
        }
    }

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        try flush()
        guard defect == .staleCache else { return try wrapped.item(for: key, now: now) }
        let start = ContinuousClock.now
        if let known = cache.withLock({ $0[key] }), start - known.read < .milliseconds(5) {
            return known.item
        }
        let item = try wrapped.item(for: key, now: nil)
        cache.withLock { $0[key] = (item, start) }
        return item.flatMap { $0.attributes.isExpired(at: now) ? nil : $0 }
    }

    func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try flush()
        return try wrapped.value(for: key, now: now)
    }

    func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try flush()
        return try wrapped.attributes(for: key, now: now)
    }

    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        try flush()
        let first = try wrapped.attributes(prefix: prefix, now: now)
        guard defect == .listOmits else { return first }
        let second = try wrapped.attributes(prefix: prefix, now: now)
        return second.filter { first[$0.key] == nil || first[$0.key] == $0.value }
    }

    func prefixes() throws -> Set<String> {
        try flush()
        return try wrapped.prefixes()
    }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try flush()
        guard defect == .updateReadsEarly else { return try wrapped.update(key, now: now, change) }
        let new = try change(wrapped.item(for: key, now: now))
        try wrapped.update(key, now: now) { _ in new }
    }

    func remove(_ key: ItemKey) throws {
        try flush()
        let now: Date? = nil
        let item = defect == .removalUndone ? try wrapped.item(for: key, now: now) : nil
        try wrapped.remove(key)
        if let item { try wrapped.update(key, now: now) { $0 ?? item } }
    }

    func removeAll(prefix: String) throws {
        try flush()
        try wrapped.removeAll(prefix: prefix)
    }

    func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        try flush()
        return try wrapped.removeExpired(prefix: prefix, now: now, unreadable: unreadable)
    }

    private func flush() throws {
        if defect == .lostAtKill { try unwritten.withLock { try Self.flush(&$0, to: wrapped) } }
    }

    private static func flush(_ unwritten: inout [ItemKey: StoredItem], to wrapped: any LockboxBackend) throws
    {
        if !unwritten.isEmpty { usleep(2000) }  // time for a kill
        for item in unwritten.values { try wrapped.write(item, policy: .replace) }
        unwritten = [:]
    }
}
