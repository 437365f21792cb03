public import LockboxPlatform

/// A backend that keeps items in memory, for tests and previews.
///
/// Behaves like a new store without a passcode. Nothing is written to disk or encrypted, and the items are gone
/// when the instance is deallocated.
public final class InMemoryBackend: LockableBackend, NotifyingBackend {
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

    /// Always ``LockState/noPasscode``.
    public var lockState: LockState { .noPasscode }

    /// See ``LockboxBackend/item(for:now:)``.
    public func item(for key: ItemKey, now: Date?) -> StoredItem? {
        state.withLock { Self.live($0.entries[key], at: now) }
    }

    /// See ``LockboxBackend/attributes(prefix:now:)``.
    public func attributes(prefix: String, now: Date?) -> [ItemKey: ItemAttributes] {
        state.withLock { state in
            state.entries.filter { $0.key.prefix == prefix }
                .compactMapValues { Self.live($0, at: now)?.attributes }
        }
    }

    /// See ``LockboxBackend/prefixes()``.
    public func prefixes() -> Set<String> {
        state.withLock { Set($0.entries.keys.map(\.prefix).filter { !ItemKey.isReserved(prefix: $0) }) }
    }

    /// See ``LockboxBackend/update(_:now:_:)``. If another thread changes the item meanwhile, `change` is
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

    /// See ``LockboxBackend/remove(_:)``.
    public func remove(_ key: ItemKey) {
        if state.withLock({ $0.entries.removeValue(forKey: key) }) != nil { report(key) }
    }

    /// See ``LockboxBackend/removeAll(prefix:)``.
    public func removeAll(prefix: String) {
        state.withLock { state in state.entries = state.entries.filter { $0.key.prefix != prefix } }
        subscribers.report(.success(.everything), to: prefix)
    }

    /// See ``NotifyingBackend/subscribe(prefix:_:)``.
    public func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) -> @Sendable () -> Void {
        subscribers.add(prefix, report)
    }

    private static func live(_ entry: Entry?, at now: Date?) -> StoredItem? {
        entry.flatMap { $0.item.attributes.isExpired(at: now) ? nil : $0.item }
    }

    private static func check(_ item: StoredItem) throws {
        if item.attributes.accessibility == .whenPasscodeSetThisDeviceOnly {
            throw LockboxError.passcodeNotSet
        }
    }
}
