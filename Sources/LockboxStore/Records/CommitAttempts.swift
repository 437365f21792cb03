import LockboxCore
import LockboxPlatform

/// Commits what is decided again after each conflict. From then on it holds the locks, so that no other writer overtakes the next
/// attempt.
struct CommitAttempts {
    private let storage: any RecordStorage
    private var held: (lock: any StorageLock, namespaces: Set<String?>)?
    private var conflicts = ConflictLimit()

    init(_ storage: any RecordStorage) { self.storage = storage }

    /// Takes the locks unless they are held already, or there are none. Returns whether it has taken them: what was read before may
    /// have changed.
    mutating func lock(_ namespaces: Set<String?>) throws -> Bool {
        if held?.namespaces == namespaces { return false }
        release()
        held = try storage.lockIfSupported(namespaces).map { ($0, namespaces) }
        return held != nil
    }

    /// Returns whether the changes were made. If not, the next attempt reads everything again.
    mutating func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> Bool {
        let namespaces = changes.namespaces(expecting: expecting)
        // A decision may have changed its mind, and need locks that come before these.
        if held?.namespaces != namespaces { release() }
        switch try storage.commit(changes, expecting: expecting, under: held?.lock) {
        case .committed:
            release()
            conflicts = ConflictLimit()
            return true
        case .unknown(let error): throw error
        case .conflict:
            try conflicts.check(changes[0].record, storage)
            // The locks may have been lost.
            release()
            _ = try lock(namespaces)
            return false
        }
    }

    mutating func release() {
        held?.lock.release()
        held = nil
    }
}

extension RecordStorage {
    /// Commits under a lock, or without one.
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        under lock: (any StorageLock)?
    ) throws -> CommitOutcome {
        try lock?.commit(changes, expecting: expecting) ?? commit(changes, expecting: expecting)
    }
}

/// Ends a call all of whose attempts meet a conflict: a server could answer so for ever.
struct ConflictLimit {
    private var begin: Duration?
    private var count = 0

    /// During a few attempts, most of the time may have passed while the process was stopped.
    private static let minimum = 8

    /// Called after each conflict about a record.
    mutating func check(_ record: RecordName, _ storage: any RecordStorage) throws(LockboxError) {
        count += 1
        let begin = begin ?? world.uptime
        self.begin = begin
        if count > Self.minimum, world.uptime - begin > storage.limits.conflictTime {
            throw LockboxError.conflict(record: storage.location(of: record))
        }
    }
}
