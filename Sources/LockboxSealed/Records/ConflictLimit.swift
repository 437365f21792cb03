import LockboxCore

/// Ends a call all of whose attempts meet a conflict: a server could answer so for ever.
struct ConflictLimit {
    private var begin: ContinuousClock.Instant?
    private var count = 0

    /// Of a few attempts, most of the time may have passed while the process was stopped.
    private static let minimum = 8

    /// Called after each conflict about a record.
    mutating func check(_ record: RecordName, _ storage: some RecordStorage) throws(LockboxError) {
        count += 1
        let begin = begin ?? .now
        self.begin = begin
        if count > Self.minimum, .now - begin > storage.limits.conflictTime {
            throw LockboxError.conflict(record: storage.location(of: record))
        }
    }
}
