@_spi(Extensions) public import LockboxCore
import LockboxPlatform
@_spi(Extensions) import LockboxStore

extension Lockbox {
    /// Returns a value, and replaces it first if it is no longer fresh: one caller at a time, of all threads, processes and machines
    /// that share the store. For tokens that may be used once.
    ///
    /// ```swift
    /// let session = try await lockbox.refreshed(
    ///     "session", as: Session.self,
    ///     isFresh: { $0.refreshAt > .now }, isUsable: { $0.expires > .now }
    /// ) { old in try await issuer.refresh(old.value.refreshToken) }
    /// ```
    ///
    /// A fresh value costs one read. Otherwise one caller runs `refresh`, stores the result durably and returns it. The others get
    /// the old value at once while it is usable, and else wait for the new one. Reads, writes and lists wait for nobody. A claim
    /// beside the item, which no list and no backup shows, says who refreshes.
    ///
    /// If the process of that caller dies, the next one follows: at once in a store in files, and otherwise after
    /// the `takeover` of ``RefreshLimits``. ``Stale/mayBeSpent`` is then `true`. A process that was only stopped, and goes on after that,
    /// does not overwrite the newer value: it returns that one.
    ///
    /// Canceling the task ends a wait, and cancels what `refresh` does. Once `refresh` has returned, the value is stored in any
    /// case. If the item was removed or replaced meanwhile, that stands.
    ///
    /// - Parameters:
    ///   - key: The item's key: not empty, at most 4,096 bytes of UTF-8.
    ///   - type: The type of the value. Can be omitted if it can be inferred.
    ///   - options: The settings of the write besides the value. The expiry is kept unless they name one. The policy does not
    ///     count.
    ///   - limits: How long to wait for others, and for the store.
    ///   - isFresh: Whether the value need not be replaced.
    ///   - isUsable: Whether the old value will do while another caller replaces it. By default it will not.
    ///   - refresh: Returns the new value. What it throws is rethrown to this caller only: the old value stays, and the next
    ///     caller may try.
    /// - Returns: The value, or `nil` if there is no such item. Then `refresh` is not called.
    /// - Throws: What `refresh` throws; ``RefreshError``, which has the new value, if it is not stored; `CancellationError`
    ///   during a wait; any error of `unarchiveObject(_:forKey:)` and of `update(_:as:options:_:)`.
    public nonisolated(nonsending) func refreshed<Value: Codable & Sendable>(
        _ key: String,
        as type: Value.Type = Value.self,
        options: WriteOptions = WriteOptions(),
        limits: RefreshLimits = RefreshLimits(),
        isFresh: (Value) -> Bool,
        isUsable: (Value) -> Bool = { _ in false },
        refresh: nonisolated(nonsending) (Stale<Value>) async throws -> Value
    ) async throws -> Value? {
        try await refreshed(
            key,
            options: options,
            limits: limits,
            decode: { try unarchive(Value.self, $0, key: key) },
            encode: { value in
                guard let archived = try archive(value, key) else {
                    throw LockboxError.encodingFailed(key: key, underlying: NoValue())
                }
                return archived
            },
            isFresh: isFresh,
            isUsable: isUsable,
            refresh: refresh
        )
    }

    /// Returns a value, and replaces it first if it is no longer fresh.
    ///
    /// - Parameters:
    ///   - key: The key. Its options count in the write; its default does not.
    ///   - limits: How long to wait for others, and for the store.
    ///   - isFresh: Whether the value need not be replaced.
    ///   - isUsable: Whether the old value will do while another caller replaces it. By default it will not.
    ///   - refresh: Returns the new value.
    /// - Returns: The value, or `nil` if there is no such item.
    /// - Throws: Any error of `refreshed(_:as:options:limits:isFresh:isUsable:refresh:)`.
    public nonisolated(nonsending) func refreshed<Value: Codable & Sendable>(
        _ key: LockboxKey<Value?>,
        limits: RefreshLimits = RefreshLimits(),
        isFresh: (Value) -> Bool,
        isUsable: (Value) -> Bool = { _ in false },
        refresh: nonisolated(nonsending) (Stale<Value>) async throws -> Value
    ) async throws -> Value? {
        try await refreshed(
            key.name,
            options: key.options,
            limits: limits,
            isFresh: isFresh,
            isUsable: isUsable,
            refresh: refresh
        )
    }

    /// Returns a value of any type that can be made from an archived one and back.
    @_spi(Extensions)
    public nonisolated(nonsending) func refreshed<Value: Sendable>(
        _ key: String,
        options: WriteOptions,
        limits: RefreshLimits,
        decode: (ArchivedValue) throws -> Value,
        encode: (Value) throws -> ArchivedValue,
        isFresh: (Value) throws -> Bool,
        isUsable: (Value) throws -> Bool,
        refresh: nonisolated(nonsending) (Stale<Value>) async throws -> Value
    ) async throws -> Value? {
        let key = try itemKey(key)
        var started: Refresh?
        let wait = RefreshWait()
        while true {
            guard let archived = try await offPool({ try backend.value(for: key, now: now()) }) else {
                return nil
            }
            let old = try decode(archived)
            if try isFresh(old) { return old }
            let run = try started ?? Refresh(self, key, options, limits)
            started = run
            guard let claim = try await run.claim(archived) else {
                if try isUsable(old) { return old }
                try run.checkIsNotWithin()
                try await Task.sleep(for: wait.pause)
                continue
            }
            let signs = run.giveSigns()
            defer { signs.cancel() }
            let item: StoredItem
            let new: Value
            do {
                guard let current = try await offPool({ try run.begin(claim, archived) }) else {
                    await run.release(claim, isSpent: claim.mayBeSpent)
                    continue
                }
                item = current
                new = try await Refresh.$running.withValue(Refresh.running + [(run, Refresh.task)]) {
                    try await refresh(Stale(value: old, mayBeSpent: claim.mayBeSpent))
                }
            } catch {
                await run.release(claim, isSpent: claim.mayBeSpent)
                throw error
            }
            do {
                let value = try encode(new)
                // A task of its own, which nobody cancels.
                let newer = try await Task { try await run.store(value, over: item, claim) }.value
                return try newer.map(decode) ?? new
            } catch let error as Refresh.NotStored {
                throw RefreshError(value: new, reason: error.reason)
            } catch {
                await run.release(claim, isSpent: true)
                throw RefreshError(value: new, reason: error)
            }
        }
    }

    private struct NoValue: Error {}

    /// A value that a refresh is to replace.
    public struct Stale<Value: Sendable>: Sendable {
        /// The value.
        public let value: Value

        /// Whether an earlier refresh of this value began, and nobody knows how it ended: its process died or was stopped. A
        /// token that may be used once may have been used. Only its issuer knows.
        public let mayBeSpent: Bool
    }

    /// How long `refreshed` waits for others, and for the store.
    public struct RefreshLimits: Sendable, Hashable {
        /// The time without a sign of life after which another caller takes over, by its own clock, which stands still while the
        /// machine is suspended. A refresh may take longer: its process gives a sign four times in this time. Of the times of
        /// both callers, the longer one counts.
        let takeover: Duration

        /// The time in which to try again to store a new value, if the store is away, locked or full.
        let storing: Duration

        /// Creates limits.
        ///
        /// - Parameters:
        ///   - takeover: The time without a sign of life after which another caller takes over.
        ///   - storing: The time in which to try again to store a new value.
        public init(takeover: Duration = .seconds(30), storing: Duration = .seconds(60)) {
            self.takeover = takeover
            self.storing = storing
        }
    }

    /// A new value that is not stored. Only this process has it.
    public struct RefreshError<Value: Sendable>: Error {
        /// The value that `refresh` has returned.
        public let value: Value

        /// ``LockboxError/itemNotFound(key:)`` if the item was removed during the refresh, for example by a sign-out;
        /// ``LockboxError/conflict(record:)`` if it was replaced, or another caller has taken over and is not done. Otherwise the
        /// last reason why the value could not be stored.
        public let reason: any Error
    }
}

extension Lockbox.Stale: Undescribed {}

extension Lockbox.RefreshError: Undescribed {
    /// The reason, without the value.
    package var summary: String { "The new value is not stored: \(reason)" }
}

/// One call of `refreshed`, on the item and on its claim.
///
/// The claim keeps others from beginning. The item alone decides what is stored: the new value replaces it only if it is what it was
/// when the refresh began. A caller whose value may be spent changes the item's date first, so a holder that goes on after that finds
/// another item, and stores nothing.
private struct Refresh: Sendable {
    let lockbox: Lockbox
    let key: ItemKey
    let options: WriteOptions
    let limits: Lockbox.RefreshLimits
    private let claimKey: ItemKey
    private let id = UInt64.random(in: .min ... .max)
    private var files: FileStorage? {
        var storage = (lockbox.backend as? SealedBackend)?.storage
        // The command's storage passes everything on, to files or to a cluster.
        while let forwarding = storage as? any ForwardingStorage { storage = forwarding.target }
        return storage as? FileStorage
    }

    init(_ lockbox: Lockbox, _ key: ItemKey, _ options: WriteOptions, _ limits: Lockbox.RefreshLimits) throws
    {
        _ = try lockbox.changing()
        self.lockbox = lockbox
        self.key = key
        self.limits = limits
        var options = options
        options.policy = .updateOnly
        self.options = options
        claimKey = try RefreshRecord.key(key.key, of: lockbox.keyPrefix, in: "\0refresh\0")
    }

    /// Those whose closures this task runs, and tasks that it has started.
    @TaskLocal static var running: [(refresh: Refresh, task: Int?)] = []

    /// So that two tasks are not taken for one.
    static var task: Int? { withUnsafeCurrentTask { $0?.hashValue } }

    /// - Throws: ``LockboxError/invalidKey(reason:)`` in the closure of a refresh of the same key.
    func checkIsNotWithin() throws {
        let isWithin = Self.running.contains {
            $0.task == Self.task && $0.refresh.claimKey == claimKey
                && $0.refresh.lockbox.isSameStore(as: lockbox)
        }
        guard isWithin else { return }
        throw LockboxError.invalidKey(
            reason:
                "the closure of a refresh waits for a refresh of the same key, \(String(reflecting: key.key))"
        )
    }

    /// The right to refresh, until another caller takes over.
    struct Claim: Sendable {
        let value: String
        let mayBeSpent: Bool
        fileprivate let presence: Presence?
    }

    /// Another caller has changed what this one was about to change.
    private struct Overtaken: Error {}

    struct NotStored: Error { let reason: any Error }

    // MARK: The claim

    /// Returns nil if another caller has it.
    func claim(_ value: ArchivedValue) async throws -> Claim? {
        let found = try await offPool {
            try lockbox.backend.item(for: claimKey, now: nil)
        }
        let record = try RefreshRecord(found?.value, claimKey)
        if let holder = record.holder, !RefreshWatch.isSilent(holder, for: limits.takeover) {
            guard let name = holder.presence, let files else { return nil }
            if try await offPool({ try files.isPresent(name) }) { return nil }
        }
        return try await offPool { try take(record, found, RefreshRecord.hash(of: value)) }
    }

    private func take(_ record: RefreshRecord, _ found: StoredItem?, _ value: String) throws -> Claim? {
        let accessibility = try lockbox.backend.attributes(for: key, now: nil)?.accessibility
        let claim = Claim(
            value: value,
            mayBeSpent: (record.holder?.value ?? record.spent) == value,
            presence: try files?.presence()
        )
        var next = record
        next.spent = claim.mayBeSpent ? value : nil
        // Not a number that this call has had before.
        let beat = UInt64.random(in: .min ... .max / 2)
        next.holder = .init(
            id: id,
            beat: beat,
            takeover: limits.takeover / .seconds(1),
            presence: claim.presence?.name,
            value: value
        )
        let item = try next.item(claimKey, accessibility ?? .whenUnlocked, now: lockbox.now())
        do {
            try lockbox.backend.update(claimKey, now: nil) { current in
                // Or this very claim, if the step is decided twice.
                guard current == found || current == item else { throw Overtaken() }
                return item
            }
        } catch is Overtaken { return nil } catch {
            // The outcome may be unknown, and the claim there.
            try? change { $0.holder = nil }
            throw error
        }
        return claim
    }

    private var holds: Bool {
        get throws {
            try RefreshRecord(lockbox.backend.value(for: claimKey, now: nil), claimKey).holder?.id == id
        }
    }

    /// Changes the claim, if this caller still has it.
    private func change(_ body: (inout RefreshRecord) -> Void) throws {
        try lockbox.backend.update(claimKey, now: nil) { current in
            var record = try RefreshRecord(current?.value, claimKey)
            guard let current, record.holder?.id == id else { throw Overtaken() }
            body(&record)
            if record.holder == nil, record.spent == nil { return nil }
            return try record.item(claimKey, current.attributes.accessibility, now: lockbox.now())
        }
    }

    func giveSigns() -> Task<Void, any Error> {
        Task {
            while true {
                try await Task.sleep(
                    for: max(limits.takeover / 4, Duration.milliseconds(5)),
                    clock: .suspending
                )
                await offPool { try? change { $0.holder?.beat += 1 } }
            }
        }
    }

    /// If it fails, others find that nobody is present, or that the signs have ended.
    func release(_ claim: Claim, isSpent: Bool = false) async {
        // A task of its own: that of a canceled caller would not wait for the lock.
        await Task {
            await offPool {
                let spent = isSpent && !isGone(claim.value) ? claim.value : nil
                try? change { record in
                    record.holder = nil
                    record.spent = spent
                }
                claim.presence?.end()
            }
        }.value
    }

    // MARK: The item

    /// Whether the item is known to have another value, or to be absent. Then nobody will use the old one.
    private func isGone(_ hash: String) -> Bool {
        do {
            return try lockbox.backend.value(for: key, now: nil).map(RefreshRecord.hash) != hash
        } catch { return false }
    }

    /// Returns the item to replace, or nil if it has another value by now, or another caller has the claim.
    func begin(_ claim: Claim, _ value: ArchivedValue) throws -> StoredItem? {
        guard let item = try lockbox.backend.item(for: key, now: nil), item.value == value else { return nil }
        // Looked up after the item: a caller that takes over later changes the date of this very item.
        guard try holds else { return nil }
        // Before the token is used: whether the item can be replaced at all.
        var changes = ItemChanges(value: value, options: options, modified: lockbox.now())
        _ = try changes.item(after: item, for: key)
        guard claim.mayBeSpent else { return item }
        changes.options = WriteOptions(policy: .updateOnly)
        changes.modified = item.attributes.modified + 0.001
        let touched = try changes.item(after: item, for: key)
        do {
            try lockbox.backend.update(key, now: nil) { current in
                guard current == item else { throw Overtaken() }
                return touched
            }
        } catch is Overtaken { return nil }
        return touched
    }

    /// The end of an attempt to store the new value.
    private enum Outcome {
        case stored
        /// It still has the old value, but another date or other attributes.
        case unchanged(StoredItem)
        case removed
        case replaced(by: ArchivedValue)
    }

    /// Returns nil, or the value that another caller has stored after it took over.
    func store(_ new: ArchivedValue, over item: StoredItem, _ claim: Claim) async throws -> ArchivedValue? {
        let end = SuspendingClock.now + limits.storing
        var (claim, item) = (claim, item)
        let wait = RefreshWait()
        var wasOvertaken = false
        while true {
            do {
                let (outcome, isHeld) = try await offPool { [item] in
                    let outcome = try commit(new, over: item)
                    if case .stored = outcome { return (outcome, true) }
                    return (outcome, try holds)
                }
                if !isHeld { wasOvertaken = true }
                switch outcome {
                case .stored:
                    await release(claim)
                    return nil
                case .replaced(let value) where wasOvertaken:
                    await release(claim)
                    return value
                case .replaced: throw NotStored(reason: LockboxError.conflict(record: key.location))
                case .removed: throw NotStored(reason: LockboxError.itemNotFound(key: key.key))
                case .unchanged(let current):
                    if isHeld {
                        item = current
                        continue
                    }
                    if let next = try await self.claim(current.value) {
                        claim.presence?.end()
                        claim = next
                        item = try await offPool { try begin(next, current.value) } ?? current
                        continue
                    }
                    if SuspendingClock.now >= end {
                        throw NotStored(reason: LockboxError.conflict(record: key.location))
                    }
                }
            } catch let error as NotStored {
                await release(claim, isSpent: true)
                throw error
            } catch {
                guard SuspendingClock.now < end else {
                    await release(claim, isSpent: true)
                    throw NotStored(reason: error)
                }
            }
            try await Task.sleep(for: wait.pause)
        }
    }

    private func commit(_ new: ArchivedValue, over item: StoredItem) throws -> Outcome {
        let changes = ItemChanges(value: new, options: options, modified: lockbox.now())
        var found: StoredItem?
        do {
            try lockbox.backend.update(key, now: nil) { current in
                found = current
                // Or the new value already, after an attempt with an unknown outcome: written again, it is durable.
                guard let current, current == item || current.value == new else { throw Overtaken() }
                return try changes.item(after: current, for: key)
            }
            return .stored
        } catch is Overtaken {}
        guard let found else { return .removed }
        return found.value == item.value ? .unchanged(found) : .replaced(by: found.value)
    }
}
