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
/// Locking is up to the storage: see ``lock(_:)``. `StorageConformance` in `LockboxTesting` tests a storage against all of
/// these requirements. It does not see whether replaced bytes are erased. Do that where you can (SQLite: `secure_delete`): rotation
/// revokes no key whose old bytes stay readable.
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
@_spi(Extensions) public protocol RecordStorage: Sendable {
    /// The limits and guarantees of this storage.
    var limits: StorageLimits { get }

    /// Whether the records stay on this device: `false` for a storage that others operate, or that other machines share.
    ///
    /// If `false`, a store refuses to keep its device key there (``DeviceKeySource/stored``): beside the records, the key would
    /// let others read names and, without a passcode, values. It also refuses items of the `ThisDeviceOnly` classes with
    /// ``LockboxError/notSupported(operation:)``.
    var isOnThisDevice: Bool { get }

    /// Reads a record.
    ///
    /// - Parameters:
    ///   - record: The record's name.
    ///   - minimum: The number of bytes needed, from the beginning. `body` may receive more.
    ///   - maximum: The maximum length. A longer record is ``LockboxError/corrupt(record:reason:)``.
    ///   - body: Receives a copy of the bytes, which it may overwrite. Errors that it throws are rethrown.
    /// - Returns: The result of `body`, or `nil`, without calling it, if the record does not exist.
    /// - Throws: ``LockboxError/unreadable(record:reason:)`` or another ``LockboxError`` if the record cannot be read.
    func read<Result>(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result?

    /// Reads several records.
    ///
    /// If the storage is transactional (``StorageLimits/isTransactional``), all are read as of the same
    /// instant. The default implementation reads them one at a time.
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

    /// Calls a closure with all records of a namespace, many at a time, in no particular order. Called if the storage is
    /// transactional.
    ///
    /// A record that exists during the whole call is always included, once, even if it is replaced meanwhile. List all as of one
    /// instant if you can: then a removal of all of them misses none that is moved meanwhile. The default implementation passes all
    /// names at once, without contents, as ``forEachName(in:waitingForCommits:_:)`` lists them. A storage that can give the contents
    /// of many records in one round trip should do that.
    ///
    /// - Parameters:
    ///   - namespace: The namespace. It need not exist.
    ///   - maximum: The maximum length. A longer record has no contents.
    ///   - waitingForCommits: See ``forEachName(in:waitingForCommits:_:)``.
    ///   - body: Called with some records at a time. It may use the storage. A record without contents has to be read with
    ///     ``read(_:atLeast:maximum:_:)``. Errors that it throws are rethrown.
    /// - Throws: ``LockboxError`` if the namespace cannot be read.
    func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws

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
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision]
    ) throws -> CommitOutcome

    /// Makes the changes committed to a namespace durable, in case a process was killed before it could do so.
    ///
    /// The default implementation does nothing, for a storage whose commits are durable as soon as they are
    /// visible.
    ///
    /// - Parameter namespace: The namespace. It need not exist.
    /// - Throws: ``LockboxError/outcomeUnknown(record:reason:wasMade:)`` if it fails.
    func synchronize(_ namespace: String) throws

    /// Returns how to refer to a record in an error, for example by its path.
    ///
    /// - Parameter record: The record's name. The record need not exist. With an empty name, this is the location of the namespace.
    ///   The locations of its records begin with it; the location of an error about the whole storage does not.
    func location(of record: RecordName) -> String

    // MARK: With a default implementation

    /// Waits for the exclusive lock of a namespace. No other writer can commit to it until the lock is released or deallocated.
    ///
    /// A storage has locks if it lets one writer at a time into a namespace, in order of arrival. Its commits take the lock by
    /// themselves. A caller can also take it, for several commits in a row, or keep it after a conflict, so that no other writer
    /// overtakes the next attempt. A storage that compares and changes records in one step, as a database does, needs none.
    ///
    /// The default implementation returns `nil`.
    ///
    /// - Parameter namespace: The namespace, or `nil` for the records outside any.
    /// - Returns: The lock, or `nil` if the storage has no locks.
    /// - Throws: ``LockboxError/lockTimeout(location:)`` if the same holder keeps the lock for too long;
    ///   ``LockboxError/readOnly(location:reason:)`` if this process may not commit.
    func lock(_ namespace: String?) throws -> (any StorageLock)?

    /// Changes records as ``commit(_:expecting:)`` does, under a lock that the caller may hold.
    ///
    /// The default implementation calls ``commit(_:expecting:)``, for a storage without locks.
    ///
    /// - Parameters:
    ///   - changes: See ``commit(_:expecting:)``.
    ///   - expecting: See ``commit(_:expecting:)``.
    ///   - lock: The lock of the changed namespace if the caller holds it, from ``lock(_:)`` or from the attempt before, or
    ///     `nil`. After a conflict it is the lock that this call has taken, or `nil` if the caller's had been lost: a lock that no
    ///     longer keeps others out is a conflict. The caller releases it.
    /// - Returns: Whether the changes were made.
    /// - Throws: Any error of ``commit(_:expecting:)`` and ``lock(_:)``.
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        lock: inout (any StorageLock)?
    ) throws -> CommitOutcome

    /// Returns everything in the storage that is not a record, and everything that is not safe to use. Changes
    /// nothing.
    ///
    /// The default implementation returns nothing.
    ///
    /// - Throws: ``LockboxError`` if the storage cannot be read at all.
    func findings() throws -> [StoreFinding]

    /// Begins to report changes of the records in a namespace, by any writer.
    ///
    /// A change that begins after this call has returned is reported once it can be read. The default implementation refuses.
    ///
    /// - Parameters:
    ///   - namespace: The namespace. It need not exist.
    ///   - report: Called with the names of changed records, on any thread, perhaps before this call returns. After
    ///     a failure nothing is reported any more.
    /// - Returns: A closure that ends the subscription. It may be called more than once, and from `report`.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this storage cannot report changes, or another
    ///   ``LockboxError``.
    func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws -> @Sendable () -> Void

    /// Sets a record aside, readable or not, and keeps its bytes. Afterwards it is absent. The default implementation refuses.
    ///
    /// - Parameters:
    ///   - record: The record's name.
    ///   - lock: The lock of the record's namespace if the caller holds it, from ``lock(_:)``, or `nil`. The caller releases it.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: ``LockboxError/missing(record:)`` if the record does not exist; ``LockboxError/conflict(record:)`` if the caller's
    ///   lock has been lost; ``LockboxError/notSupported(operation:)`` if
    ///   this storage sets nothing aside; another ``LockboxError`` if the record cannot be set aside.
    func quarantine(_ record: RecordName, lock: (any StorageLock)?) throws -> String
}

@_spi(Extensions) extension RecordStorage {
    /// Reads one record at a time.
    public func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        var found: [RecordName: Record] = [:]
        for record in records {
            found[record] = try read(record, atLeast: .max, maximum: maximum) {
                Record(bytes: Array($0.bytes), revision: $0.revision)
            }
        }
        return found
    }

    /// Passes all names at once.
    public func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        var names: [(name: String, record: Record?)] = []
        try forEachName(in: namespace, waitingForCommits: waitingForCommits) { names.append(($0, nil)) }
        try body(names)
    }

    /// Does nothing.
    public func synchronize(_ namespace: String) {}

    /// Returns `nil`.
    public func lock(_ namespace: String?) -> (any StorageLock)? { nil }

    /// Calls ``commit(_:expecting:)``.
    public func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        lock: inout (any StorageLock)?
    ) throws -> CommitOutcome { try commit(changes, expecting: expecting) }

    /// Returns nothing.
    public func findings() -> [StoreFinding] { [] }

    /// Refuses.
    public func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws -> @Sendable () -> Void { throw LockboxError.notSupported(operation: "observing changes") }

    /// Refuses.
    public func quarantine(_ record: RecordName, lock: (any StorageLock)?) throws -> String {
        throw LockboxError.notSupported(operation: "quarantine")
    }

    /// Returns what an error about a record is about: the text is its ``location(of:)``.
    ///
    /// - Parameter record: The record's name. The record need not exist.
    public func subject(of record: RecordName) -> LockboxError.Subject {
        record.subject(at: location(of: record))
    }

    /// Commits under a lock, and once more without it if it has been lost. So the caller must expect all that it has looked at.
    ///
    /// - Parameter others: Records that no process changes while the lock is held. They are expected too without it. Under the lock,
    ///   the commit would wait for itself if they are in another namespace.
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        others: [RecordName: RecordRevision] = [:],
        evenWithout lock: inout (any StorageLock)?
    ) throws -> CommitOutcome {
        if lock != nil {
            let outcome = try commit(changes, expecting: expecting, lock: &lock)
            guard case .conflict = outcome, lock == nil else { return outcome }
        }
        return try commit(changes, expecting: expecting.merging(others) { own, _ in own }, lock: &lock)
    }

    /// Returns the record's revision, or ``RecordRevision/absent`` if it does not exist.
    func revision(of record: RecordName, maximum: Int) throws -> RecordRevision {
        try read(record, atLeast: 0, maximum: maximum) { $0.revision } ?? .absent
    }
}

/// The exclusive lock of a namespace, while it is held. See ``RecordStorage/lock(_:)``.
@_spi(Extensions) public protocol StorageLock: AnyObject, Sendable {
    /// Releases the lock. Deallocating it does the same.
    func release()
}

/// A change in a namespace.
@_spi(Extensions) public enum RecordNotice: Sendable, Hashable {
    /// The records with these names were written or removed.
    case records(Set<String>)

    /// Anything may have changed.
    case everything
}

/// A storage that passes its calls on to another one, without locks. Implement what it does in another way.
@_spi(Extensions) public protocol ForwardingStorage: RecordStorage {
    /// The storage that calls are passed on to.
    var target: any RecordStorage { get }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
@_spi(Extensions) extension ForwardingStorage {
    public var limits: StorageLimits { target.limits }
    public var isOnThisDevice: Bool { target.isOnThisDevice }

    public func read<Result>(
        _ record: RecordName,
        atLeast minimum: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result? { try target.read(record, atLeast: minimum, maximum: maximum, body) }

    public func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        try target.read(records, maximum: maximum)
    }

    public func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void)
        throws
    { try target.forEachName(in: namespace, waitingForCommits: waitingForCommits, body) }

    public func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws {
        try target.forEachPage(of: namespace, maximum: maximum, waitingForCommits: waitingForCommits, body)
    }

    public func namespaces() throws -> [String] { try target.namespaces() }

    public func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws
        -> CommitOutcome
    { try target.commit(changes, expecting: expecting) }

    public func synchronize(_ namespace: String) throws { try target.synchronize(namespace) }
    public func location(of record: RecordName) -> String { target.location(of: record) }
    public func findings() throws -> [StoreFinding] { try target.findings() }

    public func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws -> @Sendable () -> Void { try target.subscribe(to: namespace, report) }

    public func quarantine(_ record: RecordName, lock: (any StorageLock)?) throws -> String {
        try target.quarantine(record, lock: lock)
    }
}
