public import LockboxCore
import LockboxPlatform

/// Stores the records of a ``SealedBackend``: named byte strings, already sealed, which the storage does not
/// interpret.
///
/// A record is in a namespace, one for each key prefix, or outside any, like the keybag. Names of records and of namespaces are
/// ASCII, at most 61 characters, and not empty: see ``RecordName``.
/// A storage must meet these requirements:
///
/// 1. **A record is changed as a whole, and durably.** Once a commit has returned, the change survives a power
///    cut. At every instant, a reader finds the old record or the new one.
/// 2. **A commit changes nothing unless every expectation holds.** It compares all records, also those that it leaves alone, and
///    changes some, with no other commit in between. Only the keybag, which is outside any namespace, may be compared earlier
///    when items are written, after the commit has begun; see ``forEachName(in:waitingForCommits:_:)``.
/// 3. **A revision is never reused for other bytes**, not even after a restart. The storage may rely on this:
///    records written by Lockbox have random bytes near the beginning, and no two are equal.
/// 4. **Absent means absent.** A storage that cannot be read throws. Only a commit creates anything.
/// 5. **Looking up records never blocks on other processes.** Listing names may wait for a running commit, but
///    not for one whose process was stopped.
/// 6. **Errors are ``LockboxError`` values**, and never contain stored data. An error about one record has the record's
///    ``subject(of:)``.
///
/// What only some storages can do is in protocols of its own: ``LockingStorage``, ``PagingStorage``, ``WatchingStorage`` and
/// ``QuarantiningLock``. `StorageConformance` in `LockboxTesting` tests a storage against all of these requirements. It does not see
/// whether replaced bytes are erased. Do that where you can (SQLite: `secure_delete`): rotation revokes no key whose old bytes stay
/// readable.
///
/// Some errors have a meaning of their own, whatever the storage is made of:
///
/// - ``LockboxError/unreadable(record:reason:)`` and ``LockboxError/unsafePermissions(path:reason:)``: one record cannot be
///   read or must not be used. That says nothing about what is in it.
/// - ``LockboxError/corrupt(record:reason:)``: one record is longer than it may be.
/// - ``LockboxError/readOnly(location:reason:)``: this process may read, but not commit.
/// - ``LockboxError/lockTimeout(location:)``: another writer holds its lock for too long.
/// - ``LockboxError/storeReplaced(location:)``: the records are those of another store than before.
/// - ``LockboxError/notReachable(endpoint:reason:)`` and ``LockboxError/accessDenied(endpoint:reason:)``: nothing can be read or
///   written for now. Calls on many records end at once.
/// - ``LockboxError/outcomeUnknown(record:reason:wasMade:)``: a change may or may not take effect, or a power cut may undo it.
public protocol RecordStorage: Sendable {
    /// The limits and guarantees of this storage. Always the same.
    var limits: StorageLimits { get }

    /// Calls a closure with a record, once, unless it does not exist.
    ///
    /// - Parameters:
    ///   - record: The record's name.
    ///   - minimum: The number of bytes needed, from the beginning. `body` may receive more.
    ///   - maximum: The maximum length. A longer record is ``LockboxError/corrupt(record:reason:)``.
    ///   - body: Receives a copy of the bytes, which it may overwrite. Errors that it throws are rethrown.
    /// - Throws: ``LockboxError/unreadable(record:reason:)`` or another ``LockboxError`` if the record cannot be read.
    func read(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws

    /// Reads several records.
    ///
    /// If the storage is transactional (``StorageLimits/isTransactional``), all are read as of the same instant.
    ///
    /// - Parameters:
    ///   - records: The records' names.
    ///   - maximum: The maximum length. A longer record is ``LockboxError/corrupt(record:reason:)``.
    /// - Returns: The records that exist.
    /// - Throws: ``LockboxError`` if a record cannot be read.
    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record]

    /// Calls a closure with the name of each record in a namespace, in no particular order.
    ///
    /// A record that exists during the whole call is always included, even if it is replaced meanwhile.
    ///
    /// - Parameters:
    ///   - namespace: The namespace. It need not exist.
    ///   - waitingForCommits: Whether to wait for commits in progress, even those of a stopped process, up to
    ///     the storage's time limit. If `true`, and the caller has changed an expected record such as the
    ///     keybag, the list includes everything written by commits that still found its old revision. A
    ///     storage that compares all expectations atomically with its changes need not wait.
    ///   - body: Called with one name at a time. Errors that it throws are rethrown.
    /// - Throws: ``LockboxError`` if the namespace cannot be read.
    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws

    /// Returns every namespace that was ever written to.
    ///
    /// - Throws: ``LockboxError`` if the namespaces cannot be read.
    func namespaces() throws -> [String]

    /// Changes records if the expected records have the expected revisions.
    ///
    /// - Parameters:
    ///   - changes: At most ``StorageLimits/maximumChanges``, one for each record. If the storage is not
    ///     transactional (``StorageLimits/isTransactional``), the new records are durable before others are removed. Removing
    ///     an absent record succeeds, and makes its absence durable.
    ///   - expecting: The revisions that records must have, changed or not, in any namespace; ``RecordRevision/absent`` for a
    ///     record that must not exist.
    /// - Returns: Whether the changes were made. If they cannot be made durable, that is ``CommitOutcome/unknown(_:)``.
    /// - Throws: ``LockboxError/readOnly(location:reason:)`` if this process may not commit, or another ``LockboxError``.
    ///   Nothing was changed, except that without transactions the first of several changes may have been made.
    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome

    /// Returns how to refer to a record in an error, for example by its path.
    ///
    /// - Parameter record: The record's name. The record need not exist. With an empty name, this is the location of the namespace.
    ///   The locations of its records begin with it; the location of an error about the whole storage does not.
    func location(of record: RecordName) -> String
}

extension RecordStorage {
    /// Returns what an error about the record is about: the text is its ``location(of:)``.
    ///
    /// - Parameter record: The record's name. The record need not exist.
    public func subject(of record: RecordName) -> LockboxError.Subject {
        record.subject(at: location(of: record))
    }

    /// Returns the record's revision, or ``RecordRevision/absent`` if it does not exist.
    func revision(of record: RecordName, maximum: Int) throws -> RecordRevision {
        try withContents(of: record, atLeast: 0, maximum: maximum) { $0.revision } ?? .absent
    }

    /// Returns what `body` makes of a record, or nil if it does not exist. See ``read(_:atLeast:maximum:_:)``, which is not generic
    /// because nothing specializes what is called through a protocol.
    @inline(__always)
    package func withContents<Result>(
        of record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result? {
        var result: Result?
        try read(record, atLeast: minimum, maximum: maximum) { result = try body($0) }
        return result
    }
}
