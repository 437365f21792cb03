public import LockboxPlatform

/// A backend that keeps items in memory, for tests and previews.
///
/// Behaves like a new store without a passcode. Nothing is written to disk or encrypted, and the items are gone
/// when the instance is deallocated.
public final class InMemoryBackend: LockboxBackend {
    private struct Entry {
        let item: StoredItem
        /// Different for every write.
        let revision: UInt64
    }

    private struct State {
        var entries: [ItemKey: Entry] = [:]
        var revision: UInt64 = 0

        mutating func put(_ item: StoredItem) {
            revision += 1
            entries[item.key] = Entry(item: item, revision: revision)
        }
    }

    private let state = Protected(State())
    private let subscribers = Subscribers<String, Result<LockboxChange, any Error>>()

    /// Creates an empty backend.
    public init() {}

    /// Always ``LockState/unprotected``.
    public var lockState: LockState { .unprotected }

    /// Returns an item with its attributes, or `nil` if it is absent.
    public func item(for key: ItemKey, now: Date?) -> StoredItem? {
        state.withLock { Self.live($0.entries[key], at: now) }
    }

    /// Returns the attributes of every item with a prefix.
    public func attributes(prefix: String, now: Date?) -> [ItemKey: ItemAttributes] {
        state.withLock { state in
            state.entries.filter { $0.key.prefix == prefix }
                .compactMapValues { Self.live($0, at: now)?.attributes }
        }
    }

    /// Returns every prefix that has items.
    public func prefixes() -> Set<String> {
        state.withLock { Set($0.entries.keys.map(\.prefix).filter { !ItemKey.isReserved(prefix: $0) }) }
    }

    /// Atomically creates, replaces or removes an item. If another thread changes the item meanwhile, `change` is
    /// called again.
    public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        while true {
            let old = state.withLock { $0.entries[key] }
            let new = try change(Self.live(old, at: now))
            if let new { try Self.check(new) }
            let isDone = state.withLock { state in
                guard state.entries[key]?.revision == old?.revision else { return false }
                if let new { state.put(new) } else { state.entries[key] = nil }
                return true
            }
            if isDone { return report(key) }
        }
    }

    private func report(_ key: ItemKey) { subscribers.report(.success(.item(key.key)), to: key.prefix) }

    /// Removes an item, readable or not.
    public func remove(_ key: ItemKey) {
        if state.withLock({ $0.entries.removeValue(forKey: key) }) != nil { report(key) }
    }

    /// Performs all of the operations or none.
    public func apply(_ operations: [ItemOperation]) throws(LockboxError) {
        try ItemOperation.checkKeysDiffer(operations)
        try state.withLock { state throws(LockboxError) in
            // The keys differ, so no operation depends on another.
            var new: [(key: ItemKey, item: StoredItem?)] = []
            for operation in operations {
                switch operation {
                case .write(let changes, let key):
                    let old = Self.live(state.entries[key], at: changes.expiryTime)
                    let item = try changes.item(after: old, for: key)
                    try Self.check(item)
                    new.append((key, item))
                case .remove(let key), .removeReadable(let key, _): new.append((key, nil))
                }
            }
            for (key, item) in new {
                if let item { state.put(item) } else { state.entries[key] = nil }
            }
        }
        operations.forEach { report($0.key) }
    }

    /// Moves an item to another key, in one step.
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws(LockboxError)
    {
        try put(key, under: newKey, policy: policy, now: now) { $0.entries[key] = nil }
        if key != newKey { [key, newKey].forEach(report) }
    }

    /// Copies an item to another key, in one step.
    public func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws(LockboxError)
    {
        try put(key, under: newKey, policy: policy, now: now) { _ in }
        if key != newKey { report(newKey) }
    }

    private func put(
        _ key: ItemKey,
        under newKey: ItemKey,
        policy: WritePolicy,
        now: Date,
        _ finish: (inout State) -> Void
    ) throws(LockboxError) {
        try state.withLock { state throws(LockboxError) in
            guard let item = Self.live(state.entries[key], at: now) else {
                throw LockboxError.itemNotFound(key: key.key)
            }
            if key == newKey { return }
            let old = Self.live(state.entries[newKey], at: now)
            // A move in two steps that was interrupted is completed.
            if old != item.renamed(to: newKey) { try policy.check(key: newKey.key, exists: old != nil) }
            state.put(item.renamed(to: newKey))
            finish(&state)
        }
    }

    /// Removes every item with a prefix.
    public func removeAll(prefix: String) {
        state.withLock { state in state.entries = state.entries.filter { $0.key.prefix != prefix } }
        subscribers.report(.success(.everything), to: prefix)
    }

    /// Begins to report changes of the items with a prefix.
    public func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) -> @Sendable () -> Void {
        subscribers.add(prefix, report)
    }

    private static func live(_ entry: Entry?, at now: Date?) -> StoredItem? {
        entry.flatMap { $0.item.attributes.isExpired(at: now) ? nil : $0.item }
    }

    private static func check(_ item: StoredItem) throws(LockboxError) {
        if item.attributes.accessibility == .whenPasscodeSetThisDeviceOnly {
            throw LockboxError.passcodeNotSet
        }
    }
}

extension InMemoryBackend: Undescribed {}
