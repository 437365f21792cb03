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
    /// the old value at once while it is usable, and else wait for the new one. Reads, writes and lists wait for no other call. The
    /// searchable attribute `lockbox.claim` of the item says who refreshes. A write of another value ends that.
    ///
    /// If the process of that caller dies, the next one follows: at once in a store in files, and otherwise after
    /// the `takeover` of ``RefreshLimits``. ``Stale/mayBeSpent`` is then `true`. A process that was only stopped, and goes on after that,
    /// does not overwrite the newer value: it returns that one.
    ///
    /// Before `refresh` is called, the item has been written once, and room for a value of twice its size is kept in files. Canceling
    /// the task ends a wait, and cancels what `refresh` does. Once `refresh` has returned, the value is stored in any case. If the item
    /// was removed or replaced meanwhile, that stands, and what replaced it is returned.
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
        let wait = LeaseWait()
        while true {
            let read = try await offPool(reading: true) { try backend.value(for: key, now: now()) }
            guard let archived = read else { return nil }
            let old = try decode(archived)
            if try isFresh(old) { return old }
            let run = try started ?? Refresh(self, key, options, limits)
            started = run
            switch try await offPool({ try run.take(archived) }) {
            case .changed: continue
            case .busy:
                if try isUsable(old) { return old }
                try run.checkIsNotWithin()
                try await world.pause(wait.pause)
                continue
            case .taken(let mayBeSpent):
                let claim = Refresh.Claim(value: archived, mayBeSpent: mayBeSpent)
                let new = try await run.replace(old, claim, decode: decode, encode: encode, refresh: refresh)
                if let new { return new }
            }
        }
    }

    /// Waits until the refreshes of this process have ended, and lets none begin after that: they throw `CancellationError`. Call it
    /// before the process ends, so that no answer of an issuer is lost.
    public static func endRefreshes() async { await RunningRefreshes.shared.end() }

    private struct NoValue: Error {}

    /// A value that a refresh is to replace.
    public struct Stale<Value: Sendable>: Sendable {
        /// The value.
        public let value: Value

        /// Whether an earlier refresh of this value began, and how it ended is unknown: its process died or was stopped. A
        /// token that may be used once may have been used. Only its issuer knows.
        public let mayBeSpent: Bool
    }

    /// How long `refreshed` waits for others, and for the store.
    public struct RefreshLimits: Sendable, Hashable {
        /// The time without a sign of life after which another caller takes over, by its own clock, which stands still while the
        /// machine is suspended. A refresh may take longer: a thread of its process gives a sign four times in this time. The
        /// longer of both callers' times counts.
        let takeover: Duration

        /// The time in which to try again to store a new value, if the store is away, locked or full.
        let storing: Duration

        /// Creates limits.
        ///
        /// - Parameters:
        ///   - takeover: The time without a sign of life after which another caller takes over: 20 milliseconds to 10 minutes.
        ///     A shorter or longer one counts as that.
        ///   - storing: The time in which to try again to store a new value.
        public init(takeover: Duration = .seconds(30), storing: Duration = .seconds(60)) {
            self.takeover = min(max(takeover, .milliseconds(20)), Lease.maximumTakeover)
            self.storing = storing
        }
    }

    /// A new value that is not stored. Only this process has it.
    public struct RefreshError<Value: Sendable>: Error {
        /// The value that `refresh` has returned.
        public let value: Value

        /// ``LockboxError/itemNotFound(key:)`` if the item was removed during the refresh, for example by a sign-out;
        /// ``LockboxError/conflict(record:)`` if another caller has taken over and is not done. Otherwise the last reason why the
        /// value could not be stored.
        public let reason: any Error
    }
}

extension Lockbox.Stale: Undescribed {}

extension Lockbox.RefreshError: Undescribed {
    /// The reason, without the value.
    package var summary: String { "The new value is not stored: \(reason)" }
}

/// One call of `refreshed`.
///
/// The item itself has the claim, so one step changes both, and a write of another value ends it: a holder that goes on after it has
/// been overtaken finds another claim or another value, and stores nothing.
private struct Refresh: Sendable {
    let lockbox: Lockbox
    let key: ItemKey
    let options: WriteOptions
    let limits: Lockbox.RefreshLimits
    let lease: Lease

    init(_ lockbox: Lockbox, _ key: ItemKey, _ options: WriteOptions, _ limits: Lockbox.RefreshLimits) throws
    {
        _ = try lockbox.changing()
        self.lockbox = lockbox
        self.key = key
        self.limits = limits
        var options = options
        options.policy = .updateOnly
        self.options = options
        lease = Lease(
            key,
            of: lockbox.backend,
            accessibility: options.accessibility,
            takeover: limits.takeover
        )
    }

    /// Those whose closures this task runs, and tasks that it has started.
    @TaskLocal static var running: [(refresh: Refresh, task: Int?)] = []

    /// So that two tasks are not taken for one.
    static var task: Int? { withUnsafeCurrentTask { $0?.hashValue } }

    /// - Throws: ``LockboxError/invalidKey(reason:)`` in the closure of a refresh of the same key.
    func checkIsNotWithin() throws {
        let isWithin = Self.running.contains {
            $0.task == Self.task && $0.refresh.key == key && $0.refresh.lockbox.isSameStore(as: lockbox)
        }
        guard isWithin else { return }
        throw LockboxError.invalidKey(
            reason:
                "the closure of a refresh waits for a refresh of the same key, \(String(reflecting: key.key))"
        )
    }

    // MARK: The claim

    /// What a caller that has the lease is to replace.
    struct Claim: Sendable {
        let value: ArchivedValue
        let mayBeSpent: Bool
    }

    /// Takes the lease. Whatever would keep the new value from being stored, such as a full disk, is an error here: before the token is
    /// used.
    func take(_ value: ArchivedValue) throws -> Lease.Attempt {
        guard let item = try lockbox.backend.item(for: key, now: nil), item.value == value else {
            return .changed
        }
        _ = try ItemChanges(value: value, options: options, modified: lockbox.now()).item(
            after: item,
            for: key
        )
        return try lease.take(item, as: item, room: Self.room(for: value.data.count))
    }

    /// For a value of twice the size. A power of two: it shows no more of the size than the item's file does.
    private static func room(for size: Int) -> Int {
        var room = 65_536
        while room < 2 * size + 32_768 { room *= 2 }
        return room
    }

    /// Whether this caller still has the claim. It may have been stopped since.
    func holds(_ claim: Claim) throws -> Bool {
        let item = try lockbox.backend.item(for: key, now: nil)
        return lease.isHeld(in: item) && item?.value == claim.value
    }

    /// Returns nil if another caller has taken over before this one began.
    func replace<Value: Sendable>(
        _ old: Value,
        _ claim: Claim,
        decode: (ArchivedValue) throws -> Value,
        encode: (Value) throws -> ArchivedValue,
        refresh: nonisolated(nonsending) (Lockbox.Stale<Value>) async throws -> Value
    ) async throws -> Value? {
        let signs = Awaited<Void>()
        defer { signs.set(()) }
        let new: Value
        do {
            try RunningRefreshes.shared.add()
        } catch {
            await release(isSpent: claim.mayBeSpent)
            throw error
        }
        defer { RunningRefreshes.shared.remove() }
        do {
            try giveSigns(until: signs)
            guard try await offPool({ try holds(claim) }) else {
                await release(isSpent: claim.mayBeSpent)
                return nil
            }
            new = try await Self.$running.withValue(Self.running + [(self, Self.task)]) {
                try await refresh(Lockbox.Stale(value: old, mayBeSpent: claim.mayBeSpent))
            }
        } catch {
            await release(isSpent: claim.mayBeSpent)
            throw error
        }
        do {
            let value = try encode(new)
            let newer = try await offPool(isCancelable: false) { try store(value, claim) }
            return try newer.map(decode) ?? new
        } catch {
            await release(isSpent: true)
            throw Lockbox.RefreshError(value: new, reason: error)
        }
    }

    /// On a thread of its own, because those of Swift's pool may be blocked.
    private func giveSigns(until end: Awaited<Void>) throws {
        try detachThread {
            while end.wait(limits.takeover / 4) == nil { try? lease.renew() }
        }
    }

    private func release(isSpent: Bool) async {
        try? await offPool(isCancelable: false) { try lease.release(isSpent: isSpent) }
    }

    // MARK: The new value

    /// Returns nil, or the value that is there instead.
    func store(_ new: ArchivedValue, _ claim: Claim) throws -> ArchivedValue? {
        lease.giveRoom()
        let end = world.awakeTime + limits.storing
        let wait = LeaseWait()
        while true {
            let isOver = world.awakeTime >= end
            do {
                let newer = try commit(new, claim)
                lease.end()
                return newer
            } catch {
                if isOver || (error as? LockboxError)?.code == .itemNotFound { throw error }
                world.sleep(wait.pause)
            }
        }
    }

    /// Stores the new value in the place of the old one, unless another caller refreshes that. The new one may be there already, after
    /// an attempt with an unknown outcome: written again, it is durable.
    private func commit(_ new: ArchivedValue, _ claim: Claim) throws -> ArchivedValue? {
        let changes = ItemChanges(value: new, options: options, modified: lockbox.now())
        do {
            try lockbox.backend.update(key, now: nil) { current in
                guard let current else { throw LockboxError.itemNotFound(key: key.key) }
                guard [claim.value, new].contains(current.value) else { throw Replaced(by: current.value) }
                if let other = current.attributes.claim, !lease.isHeld(in: current), try lease.isAlive(other)
                {
                    throw LockboxError.conflict(record: key.location)
                }
                return try changes.item(after: current, for: key).claimed(nil)
            }
            return nil
        } catch let found as Replaced { return found.by }
    }

    private struct Replaced: Error { let by: ArchivedValue }
}

/// The refreshes of this process that use a token.
final class RunningRefreshes: Sendable {
    private static let ofProcess = ProcessWide { RunningRefreshes() }
    static var shared: RunningRefreshes { ofProcess.value }

    private struct State {
        var count = 0
        var isEnding = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Protected(State())

    func add() throws {
        try state.withLock { state in
            if state.isEnding { throw CancellationError() }
            state.count += 1
        }
    }

    func remove() {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            state.count -= 1
            guard state.count == 0 else { return [] }
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func end() async {
        await withCheckedContinuation { continuation in
            let isOver = state.withLock { state in
                state.isEnding = true
                if state.count > 0 { state.waiting.append(continuation) }
                return state.count == 0
            }
            if isOver { continuation.resume() }
        }
    }
}
