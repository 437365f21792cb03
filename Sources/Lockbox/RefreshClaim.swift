import LockboxCore
import LockboxPlatform

/// The claim of a refresh: who replaces an item's value. A searchable attribute of the item.
///
///     ID BEAT TAKEOVER [PRESENCE]
struct RefreshClaim: Equatable {
    /// In the place of a claim: an earlier refresh of this value began, and its end is not known.
    static let spent = "spent"

    /// Longer ones are none of Lockbox, which would let others wait for ever.
    static let maximumTakeover = Duration.seconds(600)

    let id: UInt64
    /// Changes with each sign of life.
    var beat: UInt64
    /// Its holder gives four signs in this time, so no caller may take over earlier.
    let takeover: Duration
    /// Names the process's presence in a store in files.
    let presence: String?

    init(id: UInt64, takeover: Duration, presence: String?) {
        self.id = id
        beat = 0
        self.takeover = takeover
        self.presence = presence
    }

    /// Returns nil if it is none of Lockbox.
    init?(_ text: String) {
        let words = text.split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3 || words.count == 4, let id = UInt64(words[0], radix: 16),
            let beat = UInt64(words[1]),
            let milliseconds = UInt32(words[2]), milliseconds > 0
        else { return nil }
        let takeover = Duration.milliseconds(milliseconds)
        if takeover > Self.maximumTakeover { return nil }
        self.init(id: id, takeover: takeover, presence: words.count == 4 ? String(words[3]) : nil)
        self.beat = beat
    }

    var text: String {
        let words = [String(id, radix: 16), "\(beat)", "\(Int(takeover / .milliseconds(1)))"]
        return (words + [presence].compactMap(\.self)).joined(separator: " ")
    }

    var next: RefreshClaim {
        var next = self
        next.beat &+= 1
        return next
    }
}

/// The time that a caller has waited.
struct RefreshWait {
    private let start = world.awakeTime

    /// Short at first, so that a wait lasts an eighth longer than it has to at most.
    var pause: Duration { min(max((world.awakeTime - start) / 8, .milliseconds(2)), .milliseconds(250)) }
}

/// The silence of another holder, as the callers of this process have seen it one after the other: none may wait for long.
struct RefreshWatch {
    private var claim: String?
    private var silence = Duration.zero
    private var last = world.awakeTime

    private static let all = Protected<[String: RefreshWatch]>([:])

    /// - Parameter takeover: The caller's limit. The longer one of this and the holder's counts.
    static func isSilent(_ claim: String, for takeover: Duration) -> Bool {
        let holder = RefreshClaim(claim)
        let (id, patience) = (holder.map { "\($0.id)" } ?? claim, max(takeover, holder?.takeover ?? .zero))
        return all.withLock { all in
            if all.count > 1000 { all = [:] }
            let isSilent = all[id, default: RefreshWatch()].silence(of: claim, patience: patience) >= patience
            if isSilent { all[id] = nil }
            return isSilent
        }
    }

    /// For how long the holder has given no sign. This process may have been stopped as well, as a container is with all in it, so
    /// the time between two looks counts as that between two signs at most.
    mutating func silence(
        of claim: String,
        patience: Duration,
        now: Duration = world.awakeTime
    )
        -> Duration
    {
        silence = self.claim == claim ? silence + min(now - last, patience / 4) : .zero
        (self.claim, last) = (claim, now)
        return silence
    }
}

/// The refreshes of this process that use a token.
final class RunningRefreshes: Sendable {
    static let shared = RunningRefreshes()

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
