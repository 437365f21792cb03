import LockboxCore
import LockboxPlatform
import LockboxStore

/// The right to change an item, which one holder has at a time, of all threads, processes and machines that share the store.
///
/// The item itself has the claim, so one step changes both: a holder that goes on after it has been overtaken finds another claim, and
/// changes nothing. Another one takes over when the holder has given no sign of life for some time, and in files as soon as its process
/// has died.
final class Lease: Sendable {
    /// In the place of a claim: a holder has begun what may be done once, and its end is not known.
    private static let spent = "spent"

    /// Longer ones are none of Lockbox, which would let others wait for ever.
    static let maximumTakeover = Duration.seconds(600)

    private let backend: any LockboxBackend
    private let key: ItemKey
    /// The class of what the holder will store, or nil for that of the item: a claim is no better protected.
    private let accessibility: Accessibility?
    private let takeover: Duration
    /// The item's name in errors.
    private let record: String
    private let id = world.randomNumber
    private let presence = Protected<Presence?>(nil)

    /// - Parameter takeover: The time without a sign of life after which another one takes over. The longer one of this and the
    ///   holder's counts.
    init(
        _ key: ItemKey,
        of backend: any LockboxBackend,
        accessibility: Accessibility?,
        takeover: Duration,
        record: String? = nil
    ) {
        (self.key, self.backend, self.accessibility) = (key, backend, accessibility)
        self.takeover = min(max(takeover, .milliseconds(1)), Self.maximumTakeover)
        self.record = record ?? key.location
    }

    enum Attempt: Sendable {
        /// - Parameter mayBeSpent: Whether an earlier holder has begun, and its end is not known.
        case taken(mayBeSpent: Bool)
        /// Another one has it.
        case busy
        /// The item is not what it was.
        case changed
    }

    /// Takes the lease if it is free. What would keep a change from being stored, such as a lock that another process holds, is an error.
    ///
    /// - Parameters:
    ///   - old: The item as it was read, or nil if it is absent.
    ///   - item: The same, or the item to create.
    ///   - room: How many bytes to keep free for what the holder will store, in files.
    func take(_ old: StoredItem?, as item: StoredItem, room: Int = 0) throws -> Attempt {
        let found = item.attributes.claim
        if let found, try isAlive(found) { return .busy }
        let presence = try backend.asFiles?.presence(room: room)
        let claim = Claim(id: id, takeover: takeover, presence: presence?.name)
        let claimed = try claimed(item, claim.text)
        do {
            try backend.update(key, now: nil) { current in
                // Or this very claim, if the step is decided twice.
                guard current == old || current == claimed else { throw Changed() }
                return claimed
            }
        } catch is Changed { return .changed } catch {
            // The outcome may be unknown, and the claim there.
            try? change { try self.claimed($0, found) }
            throw error
        }
        self.presence.withLock { $0 = presence }
        return .taken(mayBeSpent: found != nil)
    }

    private struct Changed: Error {}

    /// Whether the holder with this claim may go on. In files it has a presence.
    func isAlive(_ claim: String) throws -> Bool {
        if claim == Self.spent || Silence.isOver(claim, for: takeover) { return false }
        guard let files = backend.asFiles else { return true }
        return try Claim(claim)?.presence.map(files.isPresent) ?? false
    }

    /// The backend, which writes items only as long as this holder has the lease. In a store of Lockbox's own, that is one step.
    ///
    /// Its writes throw ``LockboxError/conflict(record:)`` if another one has taken over.
    var heldBackend: any LockboxBackend {
        if let sealed = backend as? SealedBackend { return sealed.writing(while: key, check) }
        return HeldBackend(target: backend) { [self] in try check(backend.item(for: key, now: nil)) }
    }

    @Sendable private func check(_ item: StoredItem?) throws {
        if !isHeld(in: item) { throw LockboxError.conflict(record: record) }
    }

    /// Whether an item has this holder's claim.
    func isHeld(in item: StoredItem?) -> Bool { item.flatMap(claim)?.id == id }

    private func claim(of item: StoredItem) -> Claim? { item.attributes.claim.flatMap(Claim.init) }

    private func claimed(_ item: StoredItem, _ claim: String?) throws -> StoredItem {
        let options = WriteOptions(accessibility: accessibility, policy: .updateOnly)
        return try ItemChanges(value: item.value, options: options, modified: item.attributes.modified)
            .item(after: item, for: key).claimed(claim)
    }

    /// Changes the item if this holder still has it.
    ///
    /// - Throws: ``LockboxError/conflict(record:)`` if another one has taken over.
    func change(_ body: (StoredItem) throws -> StoredItem) throws {
        try backend.update(key, now: nil) { current in
            try check(current)
            return try current.map(body)
        }
    }

    /// Gives a sign of life.
    func renew() throws { try change { try claimed($0, claim(of: $0)?.next.text) } }

    /// If it fails, others find that no holder is present, or that the signs have ended.
    func release(isSpent: Bool = false) throws {
        defer { end() }
        try change { try claimed($0, isSpent ? Self.spent : nil) }
    }

    /// Gives the room back, to be written to.
    func giveRoom() { presence.withLock { $0?.giveRoom() } }

    /// After a change that has ended the claim.
    func end() { presence.withLock { $0?.end() } }
}

/// A backend whose updates begin with a check.
private struct HeldBackend: LockboxBackend {
    let target: any LockboxBackend
    let check: @Sendable () throws -> Void

    func item(for key: ItemKey, now: Date?) throws -> StoredItem? { try target.item(for: key, now: now) }

    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes] {
        try target.attributes(prefix: prefix, now: now)
    }

    func prefixes() throws -> Set<String> { try target.prefixes() }

    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        try target.update(key, now: now) { current in
            try check()
            return try change(current)
        }
    }

    func remove(_ key: ItemKey) throws { try target.remove(key) }
}

/// The claim of a lease: who may change an item. A searchable attribute of the item.
///
///     ID BEAT TAKEOVER [PRESENCE]
private struct Claim {
    let id: UInt64
    /// Changes with each sign of life.
    private var beat: UInt64 = 0
    /// Its holder gives four signs in this time, so no other may take over earlier.
    let takeover: Duration
    /// Names the process's presence in a store in files.
    let presence: String?

    init(id: UInt64, takeover: Duration, presence: String?) {
        (self.id, self.takeover, self.presence) = (id, takeover, presence)
    }

    /// Returns nil if it is none of Lockbox.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3 || words.count == 4, let id = UInt64(words[0], radix: 16),
            let beat = UInt64(words[1]),
            let milliseconds = UInt32(words[2]), milliseconds > 0
        else { return nil }
        let takeover = Duration.milliseconds(milliseconds)
        if takeover > Lease.maximumTakeover { return nil }
        self.init(id: id, takeover: takeover, presence: words.count == 4 ? String(words[3]) : nil)
        self.beat = beat
    }

    var text: String {
        let words = [String(id, radix: 16), "\(beat)", "\(Int(takeover / .milliseconds(1)))"]
        return (words + [presence].compactMap(\.self)).joined(separator: " ")
    }

    var next: Claim {
        var next = self
        next.beat &+= 1
        return next
    }
}

/// The silence of another holder, as the callers of this process have seen it one after the other: none may wait for long.
struct Silence {
    private var claim: String?
    private var time = Duration.zero
    private var last = world.awakeTime

    private static let all = ProcessWide { Protected<[String: Silence]>([:]) }

    /// - Parameter takeover: The caller's limit. The longer one of this and the holder's counts.
    fileprivate static func isOver(_ claim: String, for takeover: Duration) -> Bool {
        let holder = Claim(claim)
        let (id, patience) = (holder.map { "\($0.id)" } ?? claim, max(takeover, holder?.takeover ?? .zero))
        return all.value.withLock { all in
            if all.count > 1000 { all = [:] }
            let isOver = all[id, default: Silence()].lasts(with: claim, patience: patience) >= patience
            if isOver { all[id] = nil }
            return isOver
        }
    }

    /// For how long the holder has given no sign. This process may have been stopped as well, as a container is with all in it, so
    /// the time between two looks counts as that between two signs at most.
    mutating func lasts(with claim: String, patience: Duration, now: Duration = world.awakeTime) -> Duration {
        time = self.claim == claim ? time + min(now - last, patience / 4) : .zero
        (self.claim, last) = (claim, now)
        return time
    }
}

/// The time that a caller has waited.
struct LeaseWait {
    private let start = world.awakeTime

    /// Short at first, so that a wait lasts an eighth longer than it has to at most.
    var pause: Duration { min(max((world.awakeTime - start) / 8, .milliseconds(2)), .milliseconds(250)) }
}
