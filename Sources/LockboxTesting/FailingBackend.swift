public import LockboxCore
public import LockboxPlatform

/// A backend that fails on demand, to test how an app behaves when its secrets are not available.
///
/// ```swift
/// let backend = FailingBackend()
/// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: backend)
/// try lockbox.archiveObject("t0ken", forKey: "token")
///
/// backend.fail(.read, with: LockboxError.interactionNotAllowed(.whenUnlocked))
/// // …the app must not log the user out now
/// backend.succeed()
/// ```
///
/// A failing call changes nothing.
///
/// `isOnThisDevice`, `maximumValueSize` and `location(of:)` never fail. Features of only one type of backend, such as the
/// passcode of a `SealedBackend`, are not passed on: call the wrapped backend.
public final class FailingBackend: LockboxBackend {
    /// The kinds of calls that can fail.
    ///
    /// Minor versions may add cases.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Operation: Sendable, Hashable, CaseIterable {
        /// Storing: a write, an update, a batch with a write, setting attributes, a copy, a move, and making items durable. If it
        /// fails, nothing is stored, as on a full disk.
        case write
        /// Reading a value, several values or a whole item, also for an update, a copy or a move, or verifying the store.
        case read
        /// Reading the attributes of one item or of all items, the prefixes, or the lock state, or subscribing to changes.
        case attributes
        /// Removing one item, all items, or the expired ones, also by a batch, an update or a move, and removing or setting aside an
        /// unreadable one.
        case remove
    }

    private struct Failure: Sendable {
        let error: any Error
        var successes: Int
        var times: Int?
    }

    let wrapped: any LockboxBackend
    private let failures = Protected<[Operation: Failure]>([:])

    /// The limit of the wrapped backend.
    public var maximumValueSize: Int { wrapped.maximumValueSize }

    /// Whether the items of the wrapped backend stay on this device.
    public var isOnThisDevice: Bool { wrapped.isOnThisDevice }

    /// Creates a backend that passes calls on to another one.
    ///
    /// - Parameter wrapped: Answers all calls that are not made to fail.
    public init(_ wrapped: any LockboxBackend = InMemoryBackend()) {
        self.wrapped = wrapped
    }

    /// Makes calls fail from now on.
    ///
    /// - Parameters:
    ///   - operations: The calls that fail. If there are none, all calls fail.
    ///   - count: How many calls of each kind still succeed before that.
    ///   - times: How many calls of each kind fail. If `nil`, all calls fail until ``succeed()`` is called.
    ///   - error: The error that they throw.
    public func fail(
        _ operations: Operation...,
        after count: Int = 0,
        times: Int? = nil,
        with error: any Error
    ) {
        failures.withLock { failures in
            for operation in operations.isEmpty ? Operation.allCases : operations {
                failures[operation] = Failure(error: error, successes: count, times: times)
            }
        }
    }

    /// Makes all calls succeed again.
    public func succeed() {
        failures.withLock { $0 = [:] }
    }

    private func check(_ operations: Operation...) throws {
        try failures.withLock { failures in
            for operation in operations {
                guard var failure = failures[operation] else { continue }
                defer { failures[operation] = failure }
                if failure.successes > 0 {
                    failure.successes -= 1
                } else if let times = failure.times, times <= 0 {
                    continue
                } else {
                    failure.times? -= 1
                    throw failure.error
                }
            }
        }
    }

    /// Passes the call on, unless ``Operation/write`` fails.
    public func write(_ changes: ItemChanges, to key: ItemKey) throws {
        try check(.write)
        try wrapped.write(changes, to: key)
    }

    /// Passes the call on, unless one of its operations fails: ``Operation/write`` or ``Operation/remove``, and before the removal of
    /// what can be read ``Operation/read``.
    public func apply(_ operations: [ItemOperation]) throws {
        var kinds: Set<Operation> = []
        for operation in operations {
            switch operation {
            case .write: kinds.insert(.write)
            case .remove: kinds.insert(.remove)
            case .removeReadable: kinds.formUnion([.read, .remove])
            }
        }
        for kind in Operation.allCases where kinds.contains(kind) { try check(kind) }
        try wrapped.apply(operations)
    }

    /// Passes the call on, unless ``Operation/read``, ``Operation/write`` or ``Operation/remove`` fails.
    public func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try check(.read, .write, .remove)
        try wrapped.move(key, to: newKey, policy: policy, now: now)
    }

    /// Passes the call on, unless ``Operation/read`` or ``Operation/write`` fails.
    public func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws {
        try check(.read, .write)
        try wrapped.copy(key, to: newKey, policy: policy, now: now)
    }

    /// Passes the call on, unless ``Operation/read`` fails.
    public func item(for key: ItemKey, now: Date?) throws -> StoredItem? {
        try check(.read)
        return try wrapped.item(for: key, now: now)
    }

    /// Passes the call on, unless ``Operation/read`` fails.
    public func value(for key: ItemKey, now: Date?) throws -> ArchivedValue? {
        try check(.read)
        return try wrapped.value(for: key, now: now)
    }

    /// Passes the call on, unless ``Operation/read`` fails.
    public func values(for keys: [ItemKey], now: Date?) throws -> [ItemKey: ArchivedValue] {
        try check(.read)
        return try wrapped.values(for: keys, now: now)
    }

    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        try check(.attributes)
        return try wrapped.attributes(for: key, now: now)
    }

    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        try check(.attributes)
        return try wrapped.attributes(prefix: prefix, now: now)
    }

    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        try check(.attributes)
        try wrapped.forEachItem(prefix: prefix, now: now, unreadable: unreadable, body)
    }

    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String> {
        try check(.attributes)
        return try wrapped.prefixes(unreadable: unreadable)
    }

    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func prefixes() throws -> Set<String> {
        try check(.attributes)
        return try wrapped.prefixes()
    }

    /// Passes the call on, unless ``Operation/read`` fails. If the closure returns an item, ``Operation/write`` may fail, otherwise
    /// ``Operation/remove``: then the item does not change.
    public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try check(.read)
        try wrapped.update(key, now: now) { old in
            let new = try change(old)
            if new != old { try check(new == nil ? .remove : .write) }
            return new
        }
    }

    /// Passes the call on, unless ``Operation/remove`` fails.
    public func remove(_ key: ItemKey) throws {
        try check(.remove)
        try wrapped.remove(key)
    }

    /// Passes the call on, unless ``Operation/remove`` fails.
    public func removeAll(prefix: String) throws {
        try check(.remove)
        try wrapped.removeAll(prefix: prefix)
    }

    /// Passes the call on, unless ``Operation/remove`` fails.
    @discardableResult
    public func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws
        -> Int
    {
        try check(.remove)
        return try wrapped.removeExpired(prefix: prefix, now: now, unreadable: unreadable)
    }

    /// Returns that of the wrapped backend, unless ``Operation/attributes`` fails.
    public var lockState: LockState {
        get throws {
            try check(.attributes)
            return try wrapped.lockState
        }
    }

    /// Returns the location in the wrapped backend.
    public func location(of key: ItemKey) throws -> String? { try wrapped.location(of: key) }

    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) throws -> @Sendable () -> Void {
        try check(.attributes)
        return try wrapped.subscribe(prefix: prefix, report)
    }

    /// Passes the call on, unless ``Operation/remove`` fails.
    @discardableResult
    public func remove(record: String) throws -> Bool {
        try check(.remove)
        return try wrapped.remove(record: record)
    }

    /// Passes the call on, unless ``Operation/remove`` fails.
    @discardableResult
    public func quarantine(record: String) throws -> String {
        try check(.remove)
        return try wrapped.quarantine(record: record)
    }

    /// Passes the call on, unless ``Operation/write`` fails.
    public func synchronize(prefix: String) throws {
        try check(.write)
        try wrapped.synchronize(prefix: prefix)
    }

    /// Passes the call on, unless ``Operation/read`` fails.
    public func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport {
        try check(.read)
        return try wrapped.verify(progress: progress)
    }

    /// Passes the call on, unless ``Operation/attributes`` fails.
    public func checkForForeignItem(_ key: ItemKey) throws {
        try check(.attributes)
        try wrapped.checkForForeignItem(key)
    }
}
