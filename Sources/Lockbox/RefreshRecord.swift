@_spi(Extensions) import LockboxCore
import LockboxPlatform
@_spi(Extensions) import LockboxStore

/// The time that a caller has waited.
struct RefreshWait {
    private let start = SuspendingClock.now

    /// Short at first, so that a wait lasts an eighth longer than it has to at most.
    var pause: Duration { min(max((.now - start) / 8, .milliseconds(2)), .milliseconds(250)) }
}

/// The silence of another holder, as the callers of this process have seen it one after the other: none may wait for long.
struct RefreshWatch {
    private var beat: UInt64?
    private var silence = Duration.zero
    private var last = SuspendingClock.now

    private static let all = Protected<[UInt64: RefreshWatch]>([:])

    static func isSilent(_ holder: RefreshRecord.Holder, for takeover: Duration) -> Bool {
        let patience = max(takeover, holder.patience)
        return all.withLock { all in
            if all.count > 1000 { all = [:] }
            let isSilent =
                all[holder.id, default: RefreshWatch()].silence(of: holder, patience: patience) >= patience
            if isSilent { all[holder.id] = nil }
            return isSilent
        }
    }

    /// For how long the holder has given no sign. This process may have been stopped as well, as a container is with all in it, so
    /// the time between two looks counts as that between two signs at most.
    mutating func silence(
        of holder: RefreshRecord.Holder,
        patience: Duration,
        now: SuspendingClock.Instant = .now
    )
        -> Duration
    {
        silence = beat == holder.beat ? silence + min(now - last, patience / 4) : .zero
        (beat, last) = (holder.beat, now)
        return silence
    }
}

/// The claim of a refresh, in the class of the item that is refreshed.
struct RefreshRecord: ReservedRecord {
    var version = 1
    var holder: Holder?
    /// A hash of the value with which an earlier refresh began, if nobody knows how it ended.
    var spent: String?

    struct Holder: Codable, Hashable {
        let id: UInt64
        /// Counts the signs of life.
        var beat: UInt64
        /// In seconds. It gives four signs in this time, so nobody may take over earlier.
        let takeover: Double
        /// Names the process's presence in a store in files.
        let presence: String?
        /// A hash of the value that is refreshed.
        let value: String

        var patience: Duration { .seconds(takeover) }
    }

    static func name(_ key: ItemKey) -> String { "the claim of \(key.location)" }

    static func hash(of value: ArchivedValue) -> String { Sodium.hash(of: Array(value.data)).hexadecimal }
}
