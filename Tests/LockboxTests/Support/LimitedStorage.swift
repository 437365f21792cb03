import Lockbox

/// Records in memory, as a storage has them that others operate and whose commits wait for nobody: it has limits, and keeps
/// no device key.
struct LimitedStorage: WrappingStorage {
    let wrapped: InMemoryStorage
    /// Called after each commit.
    var afterCommit: @Sendable () -> Void = {}

    static let maximumLength = 150_000
    static let maximumCommitLength = 200_000

    var limits: StorageLimits {
        StorageLimits(
            maximumLength: Self.maximumLength,
            maximumChanges: 10,
            maximumCommitLength: Self.maximumCommitLength,
            isTransactional: true
        )
    }

    var isOnThisDevice: Bool { false }

    struct Exceeded: Error {}

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        turn: (any CommitTurn)?
    ) throws -> CommitOutcome {
        var lengths: [Int] = []
        for case .put(_, let bytes) in changes { lengths.append(bytes.count) }
        if lengths.contains(where: { $0 > Self.maximumLength }) || changes.count > limits.maximumChanges
            || lengths.reduce(0, +) > Self.maximumCommitLength
        {
            throw Exceeded()
        }
        let outcome = wrapped.commit(changes, expecting: expecting, turn: turn)
        afterCommit()
        return outcome
    }
}
