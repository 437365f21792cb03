import LockboxPlatform

/// A backend that forgets everything when it goes: for tests and previews.
///
/// It behaves as a new store without a passcode does, with nothing on disk and nothing encrypted.
public final class InMemoryBackend: LockableBackend {
    private let items = Protected<[ItemKey: StoredItem]>([:])
    /// Held by every change; recursive, as an update's closure may change items of other prefixes.
    private let changes = Lock(isRecursive: true)

    /// An empty backend.
    public init() {}

    /// Always ``LockState/noPasscode``.
    public var lockState: LockState { .noPasscode }

    /// See ``LockboxBackend/write(_:policy:)``.
    public func write(_ item: StoredItem, policy: WritePolicy) throws {
        try Self.check(item.attributes.accessibility)
        try change { items in
            let old = Self.live(items[item.key], at: item.attributes.modified)
            try policy.check(key: item.key.key, exists: old != nil)
            let attributes = try item.attributes.changing(created: old?.attributes.created)
            items[item.key] = StoredItem(key: item.key, value: item.value, checked: attributes)
        }
    }

    /// See ``LockboxBackend/item(for:now:)``.
    public func item(for key: ItemKey, now: Date) -> StoredItem? {
        items.withLock { Self.live($0[key], at: now) }
    }

    /// See ``LockboxBackend/attributes(for:now:)``.
    public func attributes(for key: ItemKey, now: Date) -> ItemAttributes? {
        item(for: key, now: now)?.attributes
    }

    /// See ``LockboxBackend/attributes(prefix:now:)``.
    public func attributes(prefix: String, now: Date) -> [ItemKey: ItemAttributes] {
        items.withLock { items in
            items.filter { $0.key.prefix == prefix && !$0.value.attributes.isExpired(at: now) }
                .mapValues(\.attributes)
        }
    }

    /// See ``LockboxBackend/prefixes()``.
    public func prefixes() -> Set<String> {
        items.withLock { Set($0.keys.map(\.prefix).filter { !ItemKey.isReserved(prefix: $0) }) }
    }

    /// See ``LockboxBackend/update(_:now:_:)``.
    public func update(_ key: ItemKey, now: Date, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try changes.withLock {
            let new = try change(item(for: key, now: now))
            if let new { try Self.check(new.attributes.accessibility) }
            items.withLock { $0[key] = new }
        }
    }

    /// See ``LockboxBackend/remove(_:)``.
    public func remove(_ key: ItemKey) {
        change { $0[key] = nil }
    }

    /// See ``LockboxBackend/removeAll(prefix:)``.
    public func removeAll(prefix: String) {
        change { items in items = items.filter { $0.key.prefix != prefix } }
    }

    /// See ``LockboxBackend/removeExpired(prefix:now:)``.
    @discardableResult
    public func removeExpired(prefix: String, now: Date) -> Int {
        change { items in
            let all = items.count
            items = items.filter { $0.key.prefix != prefix || !$0.value.attributes.isExpired(at: now) }
            return all - items.count
        }
    }

    private func change<Result>(_ body: (inout [ItemKey: StoredItem]) throws -> Result) rethrows -> Result {
        try changes.withLock { try items.withLock(body) }
    }

    private static func live(_ item: StoredItem?, at now: Date) -> StoredItem? {
        item.flatMap { $0.attributes.isExpired(at: now) ? nil : $0 }
    }

    private static func check(_ accessibility: Accessibility) throws {
        if accessibility == .whenPasscodeSetThisDeviceOnly {
            throw LockboxError.passcodeNotSet
        }
    }
}

extension WritePolicy {
    /// Throws if a write under this policy must not go on.
    package func check(key: String, exists: Bool) throws {
        switch (self, exists) {
        case (.addOnly, true): throw LockboxError.duplicateItem(key: key)
        case (.updateOnly, false): throw LockboxError.itemNotFound(key: key)
        default: break
        }
    }
}
