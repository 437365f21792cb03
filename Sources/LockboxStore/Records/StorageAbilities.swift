package import LockboxCore
import LockboxPlatform

/// A storage that lets one writer at a time into a namespace, in order of arrival. Its commits take the locks by themselves.
///
/// A storage that compares and changes records in one step, as a database does, needs no locks.
public protocol LockingStorage: RecordStorage {
    /// Waits for the exclusive locks of namespaces. No other writer can commit to them until the lock is released or deallocated.
    ///
    /// - Parameter namespaces: `nil` stands for the records outside any. They are taken in the same order by all writers.
    /// - Throws: ``LockboxError/lockTimeout(location:)`` if the same holder keeps a lock for too long;
    ///   ``LockboxError/readOnly(location:reason:)`` if this process may not commit.
    func lock(_ namespaces: Set<String?>) throws -> any StorageLock
}

/// The exclusive lock of one or more namespaces, while it is held.
public protocol StorageLock: AnyObject, Sendable {
    /// Changes records as ``RecordStorage/commit(_:expecting:)`` does, without taking another lock. Records of other namespaces may
    /// be compared before the changes.
    ///
    /// - Returns: ``CommitOutcome/conflict`` also if the lock does not keep other writers out of a changed namespace: it is for
    ///   others, has been released, or has been lost.
    func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws -> CommitOutcome

    /// Releases the lock. Deallocating it does the same.
    func release()
}

/// The lock of a storage that can set records aside.
///
/// A storage without transactions needs it to keep a device key: a creation of a store that was killed leaves one, which the next
/// creation sets aside.
public protocol QuarantiningLock: StorageLock {
    /// Sets a record aside, readable or not, and keeps its bytes. Afterwards it is absent.
    ///
    /// - Parameter record: The name of a record in a locked namespace.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: ``LockboxError/missing(record:)`` if the record does not exist; ``LockboxError/conflict(record:)`` if the lock does
    ///   not keep other writers out of its namespace; another ``LockboxError`` if the record cannot be set aside.
    func quarantine(_ record: RecordName) throws -> String
}

/// A storage that can list many records together with their contents, for example in one round trip.
public protocol PagingStorage: RecordStorage {
    /// Calls a closure with all records of a namespace, many at a time, in no particular order.
    ///
    /// A record that exists during the whole call is always included, once, even if it is replaced meanwhile. List all as of one
    /// instant if you can: then a removal of all of them misses none that is moved meanwhile.
    ///
    /// - Parameters:
    ///   - namespace: The namespace. It need not exist.
    ///   - maximum: The maximum length. A longer record has no contents.
    ///   - waitingForCommits: See ``RecordStorage/forEachName(in:waitingForCommits:_:)``.
    ///   - body: Called with some records at a time. It may use the storage. A record without contents has to be read with
    ///     ``RecordStorage/read(_:atLeast:maximum:_:)``. Errors that it throws are rethrown.
    /// - Throws: ``LockboxError`` if the namespace cannot be read.
    func forEachPage(
        of namespace: String,
        maximum: Int,
        waitingForCommits: Bool,
        _ body: ([(name: String, record: Record?)]) throws -> Void
    ) throws
}

/// A storage that can report changes.
public protocol WatchingStorage: RecordStorage {
    /// Begins to report changes of the records in a namespace, by any writer.
    ///
    /// A change that begins after this call has returned is reported once it can be read.
    ///
    /// - Parameters:
    ///   - namespace: The namespace. It need not exist.
    ///   - report: Called with the names of changed records, on any thread, perhaps before this call returns. After
    ///     a failure nothing is reported any more.
    /// - Returns: A closure that ends the subscription. It may be called more than once, and from `report`.
    /// - Throws: ``LockboxError``, for example ``LockboxError/notSupported(operation:)`` on a system that reports no changes.
    func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws -> @Sendable () -> Void
}

/// A change in a namespace.
public enum RecordNotice: Sendable, Hashable {
    /// The records with these names were written or removed.
    case records(Set<String>)

    /// Anything may have changed.
    case everything
}

/// A storage that can contain what is not its own.
package protocol InspectedStorage: RecordStorage {
    /// Returns everything in the storage that is not a record, and everything that is not safe to use. Changes nothing.
    ///
    /// - Throws: ``LockboxError`` if the storage cannot be read at all.
    func findings() throws -> [StoreFinding]
}

// Where abilities are looked up. Reads of items need none.
extension RecordStorage {
    /// Returns nil if the storage has no locks. See ``LockingStorage/lock(_:)``.
    func lockIfSupported(_ namespaces: Set<String?>) throws -> (any StorageLock)? {
        try (self as? any LockingStorage)?.lock(namespaces)
    }

    /// See ``InspectedStorage/findings()``.
    func findingsIfSupported() throws -> [StoreFinding] {
        try (self as? any InspectedStorage)?.findings() ?? []
    }
}

extension Optional<any StorageLock> {
    /// - Throws: ``LockboxError/notSupported(operation:)`` if the storage sets nothing aside; the errors of
    ///   ``QuarantiningLock/quarantine(_:)``.
    func quarantine(_ record: RecordName) throws -> String {
        guard let lock = self as? any QuarantiningLock else {
            throw LockboxError.notSupported(operation: "quarantine")
        }
        return try lock.quarantine(record)
    }
}
