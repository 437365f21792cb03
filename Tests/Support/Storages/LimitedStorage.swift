import Lockbox
@_spi(Extensions) import LockboxStore
@_spi(Extensions) import LockboxTesting

/// Records in memory, as a storage has them that others operate and whose commits wait for nobody: it has limits, and keeps
/// no device key.
struct LimitedStorage: WrappingStorage {
    let target: InMemoryStorage
    /// Called after each commit.
    var afterCommit: @Sendable () -> Void = {}
    /// Called after several records were read together.
    var afterReading: @Sendable () -> Void = {}

    static let maximumLength = 150_000
    static let maximumCommitLength = 200_000

    var limits: StorageLimits {
        StorageLimits(
            maximumRecordLength: Self.maximumLength,
            maximumChanges: 10,
            maximumCommitLength: Self.maximumCommitLength,
            isTransactional: true,
            isOnThisDevice: false
        )
    }

    struct Exceeded: Error {}

    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        let found = try target.read(records, maximum: maximum)
        afterReading()
        return found
    }

    /// Seven at a time, with their contents.
    func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        var names: [RecordName] = []
        target.forEachName(in: namespace, waitingForCommits: false) {
            names.append(RecordName(namespace: namespace, name: $0))
        }
        for start in stride(from: 0, to: names.count, by: 7) {
            let page = try read(Array(names[start..<min(start + 7, names.count)]), maximum: .max)
            try body(page.map { ($0.name, $1.bytes.count > maximum ? nil : $1) })
        }
    }

    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) throws -> CommitOutcome {
        var lengths: [Int] = []
        for case .put(_, let bytes) in changes { lengths.append(bytes.count) }
        if lengths.contains(where: { $0 > Self.maximumLength }) || changes.count > limits.maximumChanges
            || lengths.reduce(0, +) > Self.maximumCommitLength
        {
            throw Exceeded()
        }
        let outcome = target.commit(changes, expecting: expecting)
        afterCommit()
        return outcome
    }
}
