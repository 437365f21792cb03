public import LockboxCore
import LockboxPlatform

/// Where a ``SealedBackend`` keeps its records: named byte strings, sealed already, of which the storage understands
/// nothing.
///
/// A record stands in a namespace, one for each prefix of items, or outside any (the keybag). Names are short ASCII.
///
/// 1. **A record is changed as a whole, and durably.** When a commit has returned, the change survives a power cut. At
///    every instant a reader finds the old record or the new one.
/// 2. **A commit does nothing unless every expectation holds.** It compares and changes the records of its namespaces
///    with no other commit in between. An expected record outside them, as the keybag is for an item, is compared once
///    the commit has begun; see ``forEachName(in:waitingForCommits:_:)``.
/// 3. **A revision never stands for other bytes**, neither later nor after a restart. Records that Lockbox stores have random
///    bytes near the beginning: no two are equal.
/// 4. **Absent is absent.** A storage that cannot be read throws. Only a commit creates anything.
/// 5. **Looking up records waits for nobody.** A list may wait for a commit that is running, but not for one whose
///    process was stopped.
/// 6. **Errors are ``LockboxError``s**, and none contains what was stored.
///
/// Locks are the storage's own affair. `StorageConformance` in `LockboxTesting` checks a storage against all of this.
public protocol RecordStorage: Sendable {
    /// What fits into a record and into a commit.
    var limits: StorageLimits { get }

    /// Reads a record.
    ///
    /// - Parameters:
    ///   - record: Which one.
    ///   - limit: How many bytes are wanted, from the beginning. `body` may get more.
    ///   - maximum: A longer record is ``LockboxError/corrupt(record:reason:)``.
    ///   - body: Gets a copy of the bytes, which it may overwrite. What it throws is rethrown.
    /// - Returns: false, without calling `body`, if there is no such record.
    /// - Throws: ``LockboxError`` if the record cannot be read.
    func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (RecordContents) throws -> Void
    ) throws -> Bool

    /// Reads several records, as of one moment if ``StorageLimits/isTransactional``. By default one after the other.
    ///
    /// - Parameters:
    ///   - records: Which ones.
    ///   - maximum: A longer record is ``LockboxError/corrupt(record:reason:)``.
    /// - Returns: Those that there are.
    /// - Throws: ``LockboxError`` if one of them cannot be read.
    func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record]

    /// Hands the name of each record of a namespace to `body`, in no order. A record that is there all the time is among
    /// them, even if it is replaced meanwhile.
    ///
    /// - Parameters:
    ///   - namespace: Need not exist.
    ///   - waitingForCommits: Whether to wait for commits under way, also for a stopped process until the storage's time
    ///     limit is over. Then the list has every record of a commit that found an expected record as it was before the
    ///     caller changed it. A storage that compares all expectations in one step with the changes need not wait.
    ///   - body: Is called with one name after the other. What it throws is rethrown.
    /// - Throws: ``LockboxError`` if the namespace cannot be read.
    func forEachName(in namespace: String, waitingForCommits: Bool, _ body: (String) throws -> Void) throws

    /// Every namespace that was ever written to.
    ///
    /// - Throws: ``LockboxError`` if they cannot be read.
    func namespaces() throws -> [String]

    /// Changes records, if the expected ones have the expected revisions.
    ///
    /// - Parameters:
    ///   - changes: At most ``StorageLimits/maximumChanges``, one for each record, in the order in which they take place
    ///     unless the storage ``StorageLimits/isTransactional``. A removal of what is not there succeeds, and keeps it from
    ///     coming back.
    ///   - expecting: The revisions that records must have; ``RecordRevision/absent`` for none.
    ///   - turn: From ``takeTurn(in:)`` or the last attempt's ``CommitOutcome/conflict(_:)``; it stays the caller's.
    /// - Returns: Whether it took place.
    /// - Throws: ``LockboxError``. Then nothing was changed; of several changes the first ones may have been made.
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        turn: (any CommitTurn)?
    ) throws -> CommitOutcome

    /// Waits until it is the caller's turn to commit to a namespace. Then nobody else does, until the turn is released or
    /// nobody refers to it any more. By default nil, for a storage whose commits do not wait in line.
    ///
    /// - Parameter namespace: Which one; nil, the records outside any.
    /// - Throws: ``LockboxError`` if one and the same holder keeps it too long, or if this process may not commit.
    func takeTurn(in namespace: String?) throws -> (any CommitTurn)?

    /// Makes durable what was committed to a namespace by a process that may have been killed meanwhile. By default
    /// nothing, for a storage whose commits are durable when they can be seen.
    ///
    /// - Parameter namespace: Need not exist.
    /// - Throws: ``LockboxError`` if that fails.
    func synchronize(_ namespace: String) throws

    /// What to call the record in an error: its path, or its like.
    ///
    /// - Parameter record: Which one. It need not be there.
    func location(of record: RecordName) -> String
}

/// A storage that can tell what else is in it.
public protocol InspectableStorage: RecordStorage {
    /// What is in the storage besides records, and what of its own is not safe to use. Looks, and changes nothing.
    ///
    /// - Throws: ``LockboxError`` if the storage cannot be read at all.
    func findings() throws -> [StoreFinding]
}

extension RecordStorage {
    /// Reads one record after the other.
    public func read(_ records: [RecordName], maximum: Int) throws -> [RecordName: Record] {
        var found: [RecordName: Record] = [:]
        for record in records {
            _ = try read(record, upTo: .max, maximum: maximum) { contents in
                let revision = contents.revision
                found[record] = Record(bytes: Array(contents.bytes), revision: revision)
            }
        }
        return found
    }

    /// Nil: commits do not wait in line.
    public func takeTurn(in namespace: String?) -> (any CommitTurn)? { nil }

    /// Does nothing.
    public func synchronize(_ namespace: String) {}

    /// The record's revision; ``RecordRevision/absent`` if there is none.
    func revision(of record: RecordName, maximum: Int) throws -> RecordRevision {
        var revision = RecordRevision.absent
        _ = try read(record, upTo: 0, maximum: maximum) { revision = $0.revision }
        return revision
    }
}
